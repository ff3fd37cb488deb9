#include "kernels/cuda/row_launchers.cuh"
#include "kernels/ops/row_results.h"
#include "kernels/ops/row_statistics.h"
#include "kernels/shared/top_k.h"
#include "kernels/simt/harness.h"
#include "tests/kernels/kernel_fixture.h"

/// The statistics kernels on the host, in several orders of blocks and threads, against the plain ATen reference; and the same bits
/// in every order.
namespace refreshlab::test::row_statistics_simt {
namespace {

using namespace kernels;
namespace gpu = kernels::RL_GPU;
using simt::Array;
using simt::Contents;

const std::vector<int64_t> vocabularies{1, 33, 255, 4096, 4097, 9001};
constexpr int orders = 3;

bool close(double a, double b, double relative, double absolute) {
    return (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= relative * std::abs(b) + absolute;
}

Array<float> on_device(const at::Tensor& t, const std::string& name) {
    const at::Tensor c = t.contiguous();
    return {std::span(c.const_data_ptr<float>(), static_cast<size_t>(c.numel())), name, Contents::read_only};
}

std::vector<shared::SoftmaxSums> row_sums(const at::Tensor& rows) {
    const int64_t n = rows.size(0), vocab = rows.size(1);
    const Array<float> logits = on_device(rows, "logits");
    const Array<shared::SoftmaxSums> parts(static_cast<size_t>(n * gpu::num_segments(vocab)), "parts");
    const Array<shared::SoftmaxSums> out(static_cast<size_t>(n), "out");
    gpu::launch_row_sums(logits.data(), n, vocab, parts.data(), out.data(), nullptr);
    return out.values();
}

TEST_CASE("row statistics and KL on the host machine equal the reference", "[simt][statistics]") {
    Random random(1171);
    for (const int64_t vocab : vocabularies) {
        at::Tensor rows = random.normal({4, vocab}, 4.0);
        at::Tensor other = random.normal({4, vocab}, 4.0);
        rows[1].fill_(2.0);
        rows[2][random.between(0, vocab - 1)] = nan;
        other[3][random.between(0, vocab - 1)] = -std::numeric_limits<float>::infinity();
        const std::vector<RowStatistics> expected = reference::row_statistics(rows);
        const std::vector<double> expected_kl = reference::kl_divergence(rows, other);
        std::vector<double> first_kl;
        simt::in_orders(orders, [&](uint64_t order) {
            CAPTURE(vocab, order);
            const auto sums = row_sums(rows);
            for (size_t r = 0; r < 4; ++r) {
                const RowStatistics got = finish_row(sums[r]);
                CAPTURE(r);
                REQUIRE(got.finite == expected[r].finite);
                if (!got.finite) continue;
                REQUIRE(got.top1_id == expected[r].top1_id);
                REQUIRE(close(got.log_z, expected[r].log_z, 1e-12, 1e-12));
                REQUIRE(close(got.entropy_bits, expected[r].entropy_bits, 1e-9, 1e-11));
                REQUIRE(close(got.varentropy_bits2, expected[r].varentropy_bits2, 1e-7, 1e-9));
            }
            const Array<float> p = on_device(rows, "p"), q = on_device(other, "q");
            const Array<shared::KlSums> parts(static_cast<size_t>(4 * gpu::num_segments(vocab)), "parts"),
                out(4, "out");
            gpu::launch_kl_sums(p.data(), q.data(), 4, vocab, parts.data(), out.data(), nullptr);
            std::vector<double> kl;
            for (const shared::KlSums& part : out.values())
                kl.push_back(finish_kl(part));
            for (size_t r = 0; r < 4; ++r)
                REQUIRE(close(kl[r], expected_kl[r], 1e-9, 1e-11));
            if (order == 0) first_kl = kl;
            REQUIRE(std::memcmp(kl.data(), first_kl.data(), 4 * sizeof(double)) == 0);
        });
    }
}

TEST_CASE("top-k on the host machine", "[simt][statistics]") {
    Random random(1172);
    for (const int64_t vocab : vocabularies) {
        const at::Tensor row = random.normal({vocab}, 2.0).mul(4).round(); // ties
        for (const int64_t k : {int64_t{1}, int64_t{8}, std::min<int64_t>(vocab, 40)}) {
            if (k > vocab) continue;
            const TopK expected = reference::top_k(row, k);
            simt::in_orders(2, [&](uint64_t order) {
                CAPTURE(vocab, k, order);
                const Array<float> logits = on_device(row, "row");
                const Array<uint64_t> keys(static_cast<size_t>(gpu::num_segments(vocab) * k), "keys");
                const Array<uint64_t> out(static_cast<size_t>(k), "out");
                gpu::launch_top_k(logits.data(), vocab, k, keys.data(), out.data(), nullptr);
                const TopK got = finish_top_k(out.values());
                REQUIRE(got.ids == expected.ids);
                REQUIRE(got.logits == expected.logits);
            });
        }
    }
}

TEST_CASE("Monte-Carlo sums on the host machine", "[simt][statistics]") {
    Random random(1173);
    for (const int64_t vocab : {int64_t{1}, int64_t{33}, int64_t{2049}}) {
        for (const int64_t passes : {2, 8, 33}) {
            const at::Tensor row0 = random.normal({vocab}, 3.0);
            const at::Tensor rows = row0 + random.normal({passes, vocab}, 0.3);
            const McStatistics expected = reference::mc_statistics(row0, rows);
            simt::in_orders(2, [&](uint64_t order) {
                CAPTURE(vocab, passes, order);
                const Array<float> first = on_device(row0, "row0"), others = on_device(rows, "rows");
                const Array<shared::SoftmaxSums> sums(row_sums(rows), "sums", Contents::read_only);
                const auto n = static_cast<size_t>(passes);
                const Array<double> parts(static_cast<size_t>(gpu::num_mc_blocks(vocab)) * (n + 1), "parts"),
                    out(n + 1, "out");
                gpu::launch_mc_sums(first.data(), others.data(), passes, vocab, sums.data(), parts.data(),
                                    out.data(), nullptr);
                std::vector<RowStatistics> statistics;
                for (const shared::SoftmaxSums& s : sums.values())
                    statistics.push_back(finish_row(s));
                const std::vector<double> got = out.values();
                const McStatistics mc = finish_mc(statistics, true, std::span(got).first(n), got[n], vocab);
                REQUIRE(close(mc.variance, expected.variance, 1e-10, 0));
                REQUIRE(close(mc.variance_sd, expected.variance_sd, 1e-8, 1e-14));
                REQUIRE(close(mc.mutual_information_bits, expected.mutual_information_bits, 1e-8, 1e-12));
            });
        }
    }
}

} // namespace
} // namespace refreshlab::test::row_statistics_simt
