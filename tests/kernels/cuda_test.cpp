#include "kernels/execution/cuda_devices.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/column_distance.h"
#include "kernels/ops/dense.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/row_reading.h"
#include "kernels/ops/row_statistics.h"
#include "tests/kernels/kernel_fixture.h"

/// What runs on a CUDA device against what runs on the CPU. Without a device (or without CUDA in the build) each case
/// says so and is skipped.
namespace refreshlab {
namespace {

using kernels::McStatistics;
using kernels::RowStatistics;
using kernels::TopK;
using test::Random;
using test::relative_error;
using test::same_bits;

void need_cuda() {
#if REFRESHLAB_CUDA
    if (kernels::cuda_devices() == 0) SKIP("no CUDA device on this machine");
#else
    SKIP("built without CUDA (REFRESHLAB_CUDA=OFF)");
#endif
}

bool close(double a, double b, double relative, double absolute) {
    return (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= relative * std::abs(b) + absolute;
}

const std::vector<int64_t> vocabularies{1, 33, 4096, 4097, 128256};

TEST_CASE("readings of a teacher's rows on CUDA equal those on the CPU", "[kernels][cuda]") {
    need_cuda();
    Random random(72);
    for (const int64_t vocab : vocabularies) {
        const at::Tensor rows = random.normal({5, vocab}, 3.0), others = random.normal({3, vocab}, 3.0);
        const std::vector<int64_t> other_of{1, -1, 2, 0, 1};
        std::vector<int32_t> tokens(5, -1);
        for (const size_t r : {0, 1, 3})
            tokens[r] = static_cast<int32_t>(random.between(0, vocab - 1));
        const auto host = kernels::read_rows(rows, tokens, others, other_of);
        for (const at::Tensor& theirs : {others.cuda(), others}) { // beside the rows, and elsewhere
            const auto device = kernels::read_rows(rows.cuda(), tokens, theirs, other_of);
            REQUIRE(device.size() == host.size());
            for (size_t r = 0; r < host.size(); ++r) {
                CAPTURE(vocab, r);
                REQUIRE(device[r].statistics.top1_id == host[r].statistics.top1_id);
                REQUIRE(close(device[r].logprob, host[r].logprob, 1e-12, 1e-12));
                REQUIRE(device[r].rank == host[r].rank);
                REQUIRE(close(device[r].kl_nats, host[r].kl_nats, 1e-9, 1e-11));
                REQUIRE(close(device[r].overlap.acceptance, host[r].overlap.acceptance, 1e-6, 1e-9));
                REQUIRE(device[r].overlap.same_top1 == host[r].overlap.same_top1);
            }
        }
    }
}

TEST_CASE("row statistics and KL on CUDA equal those on the CPU", "[kernels][cuda]") {
    need_cuda();
    Random random(71);
    for (const int64_t vocab : vocabularies) {
        at::Tensor rows = random.normal({6, vocab}, 4.0);
        at::Tensor other = random.normal({6, vocab}, 4.0);
        rows[1].fill_(2.0);
        rows[2][random.between(0, vocab - 1)] = test::nan;
        other[3][random.between(0, vocab - 1)] = -std::numeric_limits<float>::infinity();
        const std::vector<RowStatistics> host = kernels::row_statistics(rows);
        const std::vector<RowStatistics> device = kernels::row_statistics(rows.cuda());
        const std::vector<double> host_kl = kernels::kl_divergence(rows, other);
        const std::vector<double> device_kl = kernels::kl_divergence(rows.cuda(), other.cuda());
        REQUIRE(device.size() == host.size());
        for (size_t r = 0; r < host.size(); ++r) {
            CAPTURE(vocab, r);
            REQUIRE(device[r].finite == host[r].finite);
            REQUIRE(device[r].top1_id == host[r].top1_id);
            REQUIRE(close(device[r].log_z, host[r].log_z, 1e-12, 1e-12));
            REQUIRE(close(device[r].entropy_bits, host[r].entropy_bits, 1e-10, 1e-12));
            REQUIRE(close(device[r].top1_prob, host[r].top1_prob, 1e-10, 0));
            REQUIRE(close(device_kl[r], host_kl[r], 1e-9, 1e-11));
        }
        for (const double kl : kernels::kl_divergence(rows.cuda(), rows.cuda()))
            REQUIRE((kl == 0 || std::isnan(kl)));
    }
}

TEST_CASE("Monte-Carlo statistics on CUDA equal those on the CPU", "[kernels][cuda]") {
    need_cuda();
    Random random(72);
    for (const int64_t vocab : vocabularies) {
        for (const int64_t passes : {2, 8, 33}) {
            const at::Tensor row0 = random.normal({vocab}, 3.0);
            const at::Tensor rows = row0 + random.normal({passes, vocab}, 0.3);
            const McStatistics host = kernels::mc_statistics(row0, rows);
            const McStatistics device = kernels::mc_statistics(row0.cuda(), rows.cuda());
            CAPTURE(vocab, passes);
            REQUIRE(close(device.variance, host.variance, 1e-10, 0));
            REQUIRE(close(device.variance_sd, host.variance_sd, 1e-8, 1e-14));
            REQUIRE(close(device.mutual_information_bits, host.mutual_information_bits, 1e-8, 1e-12));
            REQUIRE(close(device.mean_entropy_bits, host.mean_entropy_bits, 1e-10, 1e-12));
            REQUIRE(close(device.mean_entropy_sd_bits, host.mean_entropy_sd_bits, 1e-8, 1e-12));
        }
        const at::Tensor row0 = random.normal({vocab}, 3.0).cuda();
        const McStatistics none = kernels::mc_statistics(row0, row0.repeat({5, 1}));
        REQUIRE((none.variance == 0 && none.variance_sd == 0 && none.mutual_information_bits == 0));
    }
}

TEST_CASE("top-k on CUDA equals that on the CPU, ties and NaN included", "[kernels][cuda]") {
    need_cuda();
    Random random(73);
    for (const int64_t vocab : vocabularies) {
        for (const int64_t k : {1, 8, 32, 128, 129, 5000}) {
            at::Tensor row = random.normal({vocab}, 3.0).round();
            row[random.between(0, vocab - 1)] = test::nan;
            const TopK host = kernels::top_k(row, k);
            const TopK device = kernels::top_k(row.cuda(), k);
            CAPTURE(vocab, k);
            REQUIRE(device.ids == host.ids);
            REQUIRE(device.logits == host.logits);
        }
    }
}

TEST_CASE("dense ops, dropout and column distance on CUDA agree with the CPU", "[kernels][cuda]") {
    need_cuda();
    Random random(74);
    const at::Tensor x = random.normal({9, 144});
    const at::Tensor w = random.normal({320, 144}, 0.1);
    const at::Tensor norm = random.normal({144});
    REQUIRE(relative_error(kernels::linear(x.cuda(), w.cuda()).cpu(), kernels::linear(x, w)) <
            1e-3); // TF32 may be on
    REQUIRE(relative_error(kernels::rms_norm(x.cuda(), norm.cuda(), 1e-5, 140).cpu(),
                           kernels::rms_norm(x, norm, 1e-5, 140)) < 1e-5);
    REQUIRE(relative_error(kernels::silu_mul(x.cuda(), x.cuda()).cpu(), kernels::silu_mul(x, x)) < 1e-5);
    at::Tensor turned = x.clone().view({9, 9, 16});
    at::Tensor device = turned.cuda();
    const at::Tensor angles = random.normal({9, 8});
    kernels::rope_(turned, angles.cos(), angles.sin());
    kernels::rope_(device, angles.cos().cuda(), angles.sin().cuda());
    REQUIRE(relative_error(device.cpu(), turned) < 1e-5);

    at::Tensor dropped = x.clone();
    at::Tensor dropped_there = x.cuda();
    const std::vector<int32_t> passes{0, 1, 2, 3, 4, 5, 6, 7, 8};
    kernels::dropout_rows_(dropped, {1, 2, 3, 0}, passes, kernels::DropoutSite::mlp_output, 0.3F);
    kernels::dropout_rows_(dropped_there, {1, 2, 3, 0}, passes, kernels::DropoutSite::mlp_output, 0.3F);
    REQUIRE(same_bits(dropped_there.cpu(), dropped));

    const at::Tensor a = random.normal({2, 3, 7, 64});
    const at::Tensor b = random.normal({2, 3, 7, 64});
    const kernels::ColumnDistance here = kernels::column_distance(a, b);
    const kernels::ColumnDistance there = kernels::column_distance(a.cuda(), b.cuda());
    REQUIRE(relative_error(there.relative, here.relative) < 1e-6);
    REQUIRE(relative_error(there.max_abs, here.max_abs) < 1e-6);
}

TEST_CASE("attention on CUDA agrees with the CPU, masks included", "[kernels][cuda]") {
    need_cuda();
    Random random(75);
    at::Tensor k = random.normal({3, 50, 64});
    at::Tensor v = random.normal({3, 50, 64});
    k.narrow(1, 40, 10).fill_(test::nan);
    v.narrow(1, 40, 10).fill_(test::nan);
    const std::vector<int64_t> visible(5, 40);
    const std::vector<int32_t> passes{0, 1, 2, 3, 4};
    kernels::AttentionInputs in;
    in.q = random.normal({5, 6, 64});
    in.k_cache = k;
    in.v_cache = v;
    in.num_visible = visible;
    in.own_k = random.normal({5, 3, 64});
    in.own_v = random.normal({5, 3, 64});
    in.scale = 0.125;
    in.dropout_key = {1, 40, 2, 0};
    in.passes = passes;
    in.dropout_p = 0.2F;
    kernels::AttentionInputs there = in;
    for (at::Tensor* t : {&there.q, &there.k_cache, &there.v_cache, &there.own_k, &there.own_v})
        *t = t->cuda();
    at::Tensor probabilities, probabilities_there;
    const at::Tensor out = kernels::attention(in, &probabilities);
    REQUIRE(relative_error(kernels::attention(there, &probabilities_there).cpu(), out) < 1e-3);
    REQUIRE(relative_error(probabilities_there.cpu(), probabilities) < 1e-3);
    std::vector<int64_t> positions, columns; // any order of columns
    for (int64_t i = 0; i < 20; ++i) {
        positions.push_back(2 * i);
        columns.push_back(39 - i);
    }
    const std::vector<kernels::KeyList> lists(3, {positions.data(), columns.data(), 20});
    in.lists = there.lists = lists;
    REQUIRE(relative_error(kernels::attention(there, &probabilities_there).cpu(),
                           kernels::attention(in, &probabilities)) < 1e-3);
    REQUIRE(relative_error(probabilities_there.cpu(), probabilities) < 1e-3);
}

} // namespace
} // namespace refreshlab
