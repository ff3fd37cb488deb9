#include "kernels/ops/row_statistics.h"
#include "kernels/shared/check.h"
#include "kernels/shared/row_accumulators.h"
#include "kernels/shared/top_k.h"
#include "tests/kernels/kernel_fixture.h"

#include <algorithm>

namespace refreshlab {
namespace {

using kernels::Isa;
using kernels::McStatistics;
using kernels::RowStatistics;
using kernels::TopK;
using test::Random;
using test::Setting;

const std::vector<int64_t> vocabularies{1, 2, 7, 16, 33, 511, 513, 4095, 4096, 4097, 10007};

/// Rows of every temper: flat, ordinary, peaked until one token has nearly all the mass, shifted far from 0.
at::Tensor some_rows(Random& random, int64_t vocab) {
    std::vector<at::Tensor> rows;
    for (const double sd : {0.0, 0.01, 1.0, 4.0, 12.0})
        rows.push_back(random.normal({vocab}, sd));
    at::Tensor peaked = random.normal({vocab}, 1.0);
    peaked[random.between(0, vocab - 1)] = 25.0;
    rows.push_back(peaked);
    rows.push_back(random.normal({vocab}, 2.0) + 1000.0);
    rows.push_back(random.normal({vocab}, 2.0) - 5000.0);
    return at::stack(rows);
}

bool same(const RowStatistics& a, const RowStatistics& b) {
    return a.log_z == b.log_z && a.entropy_bits == b.entropy_bits && a.top1_prob == b.top1_prob &&
           a.top1_id == b.top1_id && a.finite == b.finite;
}

bool close(double a, double b, double relative, double absolute = 0.0) {
    return std::abs(a - b) <= relative * std::abs(b) + absolute;
}

TEST_CASE("row statistics agree with float64 to 1e-6 and better", "[kernels][rows]") {
    Random random(31);
    for (const int64_t vocab : vocabularies) {
        const at::Tensor rows = some_rows(random, vocab);
        const std::vector<RowStatistics> expected = kernels::reference::row_statistics(rows);
        for (const Isa isa : test::own_isas()) {
            const Setting setting(isa);
            const std::vector<RowStatistics> ours = kernels::row_statistics(rows);
            REQUIRE(ours.size() == expected.size());
            for (size_t r = 0; r < ours.size(); ++r) {
                CAPTURE(vocab, r, std::string(to_string(isa)));
                REQUIRE(ours[r].finite);
                REQUIRE(close(ours[r].log_z, expected[r].log_z, 1e-12, 1e-12));
                // The absolute part covers the reference: ln Z - z cancels there where our form does not.
                REQUIRE(close(ours[r].entropy_bits, expected[r].entropy_bits, 1e-9, 1e-11));
                REQUIRE(close(ours[r].top1_prob, expected[r].top1_prob, 1e-10));
                REQUIRE(ours[r].top1_logit == expected[r].top1_logit);
                REQUIRE(ours[r].top1_id == expected[r].top1_id);
            }
        }
    }
}

TEST_CASE("the entropy of a nearly certain row keeps its digits", "[kernels][rows]") {
    // Two logits a apart: H = ln(1 + e^-a) + a e^-a / (1 + e^-a), tiny and known.
    for (const double a : {5.0, 20.0, 30.0}) {
        const double e = std::exp(-a);
        const double expected = (std::log1p(e) + a * e / (1.0 + e)) / kernels::shared::ln2;
        const at::Tensor row = at::tensor({static_cast<float>(a), 0.0F}).unsqueeze(0);
        for (const Isa isa : test::own_isas()) {
            const Setting setting(isa);
            REQUIRE(close(kernels::row_statistics(row)[0].entropy_bits, expected, 1e-9, 1e-15));
        }
    }
}

TEST_CASE("a uniform row has log2 V bits", "[kernels][rows]") {
    for (const int64_t vocab : vocabularies) {
        const at::Tensor row = at::full({1, vocab}, -3.25F);
        const RowStatistics s = kernels::row_statistics(row)[0];
        REQUIRE(close(s.entropy_bits, std::log2(static_cast<double>(vocab)), 1e-12, 1e-12));
        REQUIRE(s.top1_id == 0);
        REQUIRE(close(s.top1_prob, 1.0 / static_cast<double>(vocab), 1e-12));
    }
}

TEST_CASE("a constant added to a row moves ln Z and nothing else", "[kernels][rows]") {
    Random random(32);
    // Quarters and a power of two: the shifted row is exact.
    const at::Tensor row = (random.normal({1, 5000}, 20.0)).round() / 4.0;
    const RowStatistics before = kernels::row_statistics(row)[0];
    const RowStatistics after = kernels::row_statistics(row + 512.0)[0];
    REQUIRE(after.entropy_bits == before.entropy_bits);
    REQUIRE(after.top1_prob == before.top1_prob);
    REQUIRE(close(after.log_z, before.log_z + 512.0, 1e-14));
}

TEST_CASE("a row with NaN or infinity is reported and spoils no other", "[kernels][rows]") {
    Random random(33);
    const float inf = std::numeric_limits<float>::infinity();
    for (const Isa isa : kernels::available_isas()) {
        const Setting setting(isa);
        for (const float bad : {std::nanf(""), inf, -inf}) {
            at::Tensor rows = random.normal({3, 6000});
            const std::vector<RowStatistics> clean = kernels::row_statistics(rows);
            rows[1][random.between(0, 5999)] = bad;
            const std::vector<RowStatistics> s = kernels::row_statistics(rows);
            REQUIRE_FALSE(s[1].finite);
            REQUIRE((std::isnan(s[1].log_z) && std::isnan(s[1].entropy_bits) && std::isnan(s[1].top1_prob)));
            REQUIRE((same(s[0], clean[0]) && same(s[2], clean[2])));
        }
        const RowStatistics all_bad = kernels::row_statistics(at::full({1, 9}, -inf))[0];
        REQUIRE_FALSE(all_bad.finite);
    }
}

TEST_CASE("row results do not depend on threads, neighbours or instruction set", "[kernels][rows]") {
    Random random(34);
    const at::Tensor rows = some_rows(random, 10007);
    const at::Tensor other = some_rows(random, 10007);
    std::vector<RowStatistics> first;
    std::vector<double> first_kl;
    McStatistics first_mc;
    for (const Isa isa : test::own_isas()) {
        for (const int threads : {1, 2, 5}) {
            const Setting setting(isa, threads);
            const std::vector<RowStatistics> s = kernels::row_statistics(rows);
            const std::vector<double> kl = kernels::kl_divergence(rows, other);
            const McStatistics mc = kernels::mc_statistics(rows[0], rows);
            if (first.empty()) {
                first = s;
                first_kl = kl;
                first_mc = mc;
            }
            REQUIRE(std::ranges::equal(s, first, same));
            REQUIRE(kl == first_kl);
            REQUIRE(mc.variance == first_mc.variance);
            REQUIRE(mc.variance_sd == first_mc.variance_sd);
            REQUIRE(mc.mutual_information_bits == first_mc.mutual_information_bits);
            for (int64_t r = 0; r < rows.size(0); ++r) {
                const at::Tensor one = rows.narrow(0, r, 1);
                REQUIRE(same(kernels::row_statistics(one)[0], s[static_cast<size_t>(r)]));
            }
        }
    }
}

TEST_CASE("KL agrees with float64, is never negative, and zero only between equals", "[kernels][rows]") {
    Random random(35);
    for (const int64_t vocab : vocabularies) {
        const at::Tensor p = some_rows(random, vocab);
        const at::Tensor q = some_rows(random, vocab);
        for (const Isa isa : test::own_isas()) {
            const Setting setting(isa);
            const std::vector<double> pq = kernels::kl_divergence(p, q);
            const std::vector<double> qp = kernels::kl_divergence(q, p);
            const std::vector<double> expected = kernels::reference::kl_divergence(p, q);
            const std::vector<double> shifted = kernels::kl_divergence(p, q + 64.0);
            for (size_t r = 0; r < pq.size(); ++r) {
                CAPTURE(vocab, r, std::string(to_string(isa)));
                REQUIRE(close(pq[r], expected[r], 1e-9, 1e-10));
                REQUIRE((pq[r] >= 0 && qp[r] >= 0));
                REQUIRE(close(shifted[r], pq[r], 1e-3, 1e-5)); // q + 64 rounds to fp32
            }
            REQUIRE(std::ranges::all_of(kernels::kl_divergence(p, p), [](double kl) { return kl == 0.0; }));
        }
    }
    at::Tensor bad = at::zeros({2, 5});
    bad[1][2] = test::nan;
    const at::Tensor half = at::tensor({0.5F, 0.5F}).log().unsqueeze(0);
    const at::Tensor tilted = at::tensor({0.9F, 0.1F}).log().unsqueeze(0);
    for (const Isa isa : kernels::available_isas()) {
        const Setting setting(isa);
        // KL(p || q), not KL(q || p): worked out by hand from the definition, sum p ln(p / q).
        REQUIRE(close(kernels::kl_divergence(half, tilted)[0],
                      0.5 * std::log(0.5 / 0.9) + 0.5 * std::log(5.0), 1e-6));
        REQUIRE(
            close(kernels::kl_divergence(tilted, half)[0], 0.9 * std::log(1.8) + 0.1 * std::log(0.2), 1e-6));
        REQUIRE(kernels::kl_divergence(bad, at::zeros({2, 5}))[0] == 0.0);
        REQUIRE(std::isnan(kernels::kl_divergence(bad, at::zeros({2, 5}))[1]));
        REQUIRE(std::isnan(kernels::kl_divergence(at::zeros({2, 5}), bad)[1]));
    }
}

TEST_CASE("Monte-Carlo statistics agree with float64", "[kernels][rows]") {
    Random random(36);
    for (const int64_t vocab : vocabularies) {
        for (const int64_t passes : {2, 3, 9}) {
            const at::Tensor row0 = random.normal({vocab}, 3.0) + random.uniform(-100.0, 100.0);
            const at::Tensor rows = row0 + random.normal({passes, vocab}, random.uniform(0.001, 2.0));
            const McStatistics expected = kernels::reference::mc_statistics(row0, rows);
            for (const Isa isa : test::own_isas()) {
                const Setting setting(isa);
                CAPTURE(vocab, passes, std::string(to_string(isa)));
                const McStatistics mc = kernels::mc_statistics(row0, rows);
                REQUIRE(close(mc.variance, expected.variance, 1e-9));
                REQUIRE(close(mc.mutual_information_bits, expected.mutual_information_bits, 1e-7, 1e-11));
                REQUIRE(close(mc.mean_entropy_bits, expected.mean_entropy_bits, 1e-9, 1e-11));
                REQUIRE(close(mc.mean_entropy_sd_bits, expected.mean_entropy_sd_bits, 1e-7, 1e-11));
                if (passes < 3)
                    REQUIRE(std::isnan(mc.variance_sd));
                else
                    REQUIRE(close(mc.variance_sd, expected.variance_sd, 1e-7, 1e-15));
            }
        }
    }
}

TEST_CASE("passes equal to row 0 give exactly zero", "[kernels][rows]") {
    Random random(37);
    for (const Isa isa : test::own_isas()) {
        const Setting setting(isa);
        for (const int64_t passes : {2, 3, 7, 8}) {
            const at::Tensor row0 = random.normal({4099}, 5.0);
            const McStatistics mc = kernels::mc_statistics(row0, row0.repeat({passes, 1}));
            REQUIRE(mc.variance == 0.0);
            REQUIRE(mc.mutual_information_bits == 0.0);
            REQUIRE(mc.mean_entropy_sd_bits == 0.0);
            REQUIRE(mc.mean_entropy_bits == kernels::row_statistics(row0.unsqueeze(0))[0].entropy_bits);
            if (passes >= 3) REQUIRE(mc.variance_sd == 0.0);
        }
    }
}

TEST_CASE("the variance of known noise comes out, with an honest error", "[kernels][rows]") {
    Random random(38);
    const double sd = 0.5;
    const at::Tensor row0 = random.normal({4096}, 3.0);
    const McStatistics mc = kernels::mc_statistics(row0, row0 + random.normal({8, 4096}, sd));
    REQUIRE(std::abs(mc.variance - sd * sd) < 5 * sd * sd * std::sqrt(2.0 / (7.0 * 4096.0)));
    REQUIRE(mc.variance_sd > 0);
    REQUIRE(mc.mutual_information_bits > 0);
    // One maximally confident but split vote: MI is the entropy of the vote.
    at::Tensor split = at::zeros({2, 64});
    split[0][3] = 100.0;
    split[1][9] = 100.0;
    REQUIRE(close(kernels::mc_statistics(split[0], split).mutual_information_bits, 1.0, 1e-12));
}

TEST_CASE("a NaN in any Monte-Carlo row makes every number NaN", "[kernels][rows]") {
    for (const Isa isa : kernels::available_isas()) {
        const Setting setting(isa);
        const at::Tensor good = at::zeros({3, 50});
        at::Tensor bad = good.clone();
        bad[2][49] = test::nan;
        for (const McStatistics& mc :
             {kernels::mc_statistics(good[0], bad), kernels::mc_statistics(bad[2], good)}) {
            REQUIRE((std::isnan(mc.variance) && std::isnan(mc.variance_sd) &&
                     std::isnan(mc.mutual_information_bits) && std::isnan(mc.mean_entropy_bits) &&
                     std::isnan(mc.mean_entropy_sd_bits)));
        }
    }
    REQUIRE_THROWS_AS(kernels::mc_statistics(at::zeros({5}), at::zeros({1, 5})), InvariantError);
}

bool same(const TopK& a, const TopK& b) {
    return a.ids == b.ids && a.logits == b.logits;
}

TEST_CASE("top-k agrees with a stable sort, ties and NaN included", "[kernels][rows]") {
    Random random(39);
    for (int round = 0; round < 40; ++round) {
        const int64_t vocab = random.pick(vocabularies);
        at::Tensor row = random.normal({vocab}, 3.0);
        if (round % 2 == 0) row = row.round(); // many ties
        if (round % 3 == 0) row[random.between(0, vocab - 1)] = test::nan;
        if (round % 5 == 0) row[random.between(0, vocab - 1)] = -std::numeric_limits<float>::infinity();
        if (round % 7 == 0) row.fill_(-std::numeric_limits<float>::infinity());
        const int64_t k = random.pick<int64_t>({0, 1, 2, 8, 32, 64, 65, 1000, 20000});
        const TopK expected = kernels::reference::top_k(row, k);
        REQUIRE(static_cast<int64_t>(expected.ids.size()) == std::min(k, vocab));
        for (const Isa isa : test::own_isas()) {
            const Setting setting(isa);
            CAPTURE(round, vocab, k, std::string(to_string(isa)));
            REQUIRE(same(kernels::top_k(row, k), expected));
        }
    }
}

TEST_CASE("half-precision logits are widened, not rounded again", "[kernels][rows]") {
    Random random(40);
    const at::Tensor half = random.normal({2, 3000}, 3.0, at::kBFloat16);
    const at::Tensor wide = half.to(at::kFloat);
    REQUIRE(same(kernels::row_statistics(half)[1], kernels::row_statistics(wide)[1]));
    REQUIRE(kernels::kl_divergence(half, half.flip(0)) == kernels::kl_divergence(wide, wide.flip(0)));
    REQUIRE(same(kernels::top_k(half[0], 10), kernels::top_k(wide[0], 10)));
}

// What the CUDA kernels are made of.

TEST_CASE("shared accumulators give the row's statistics wherever the row is cut", "[kernels][shared]") {
    Random random(41);
    for (int round = 0; round < 20; ++round) {
        const int64_t vocab = random.between(1, 900);
        const at::Tensor rows = some_rows(random, vocab);
        const at::Tensor p = rows[random.between(0, 7)].contiguous();
        const at::Tensor q = rows[random.between(0, 7)].contiguous();
        const float* const pd = p.const_data_ptr<float>();
        const float* const qd = q.const_data_ptr<float>();
        const RowStatistics expected = kernels::reference::row_statistics(p.unsqueeze(0))[0];
        kernels::shared::SoftmaxSums sums;
        kernels::shared::KlSums kl;
        for (int64_t i = 0; i < vocab;) {
            const int64_t end = std::min(vocab, i + random.between(0, 200)); // empty parts too
            kernels::shared::SoftmaxSums part;
            kernels::shared::KlSums kl_part;
            for (; i < end; ++i) {
                part.push(pd[i], i);
                kl_part.push(pd[i], qd[i]);
            }
            sums.merge(part);
            kl.merge(kl_part);
        }
        REQUIRE(sums.finite());
        REQUIRE(sums.argmax == expected.top1_id);
        REQUIRE(close(sums.log_z(), expected.log_z, 1e-12, 1e-12));
        REQUIRE(close(sums.entropy_nats() / kernels::shared::ln2, expected.entropy_bits, 1e-9, 1e-11));
        const double expected_kl = kernels::reference::kl_divergence(p.unsqueeze(0), q.unsqueeze(0))[0];
        REQUIRE(close(kl.kl_nats(), expected_kl, 1e-9, 1e-10));
    }
    kernels::shared::SoftmaxSums bad;
    bad.push(1.0F, 0);
    bad.push(std::nanf(""), 1);
    REQUIRE_FALSE(bad.finite());
}

TEST_CASE("the shared Monte-Carlo column gives the reference's sums", "[kernels][shared]") {
    Random random(42);
    const int64_t vocab = 301;
    const int64_t passes = 5;
    const at::Tensor row0 = random.normal({vocab}, 3.0);
    const at::Tensor rows = row0 + random.normal({passes, vocab});
    const float* const data = rows.const_data_ptr<float>();
    std::vector<double> log_z;
    for (const RowStatistics& row : kernels::reference::row_statistics(rows))
        log_z.push_back(row.log_z);
    std::vector<double> squares(passes, 0.0);
    double disagreement = 0;
    for (int64_t j = 0; j < vocab; ++j) {
        disagreement +=
            kernels::shared::push_mc_column([&](int64_t i) { return data[i * vocab + j]; },
                                            row0[j].item<double>(), log_z.data(), passes, squares.data());
    }
    const McStatistics expected = kernels::reference::mc_statistics(row0, rows);
    REQUIRE(close(kernels::shared::mc_variance(squares.data(), passes, vocab), expected.variance, 1e-9));
    REQUIRE(
        close(kernels::shared::mc_variance_sd(squares.data(), passes, vocab), expected.variance_sd, 1e-9));
    REQUIRE(close(disagreement / 5.0 / kernels::shared::ln2, expected.mutual_information_bits, 1e-9));
}

TEST_CASE("top-k keys order logits, then ids, and come back whole", "[kernels][shared]") {
    using namespace kernels::shared;
    const float inf = std::numeric_limits<float>::infinity();
    const std::vector<float> ascending{-inf, -3.4e38F, -1.0F, -1e-42F, 0.0F, 1e-42F, 1.0F, 3.4e38F, inf};
    for (size_t i = 0; i < ascending.size(); ++i) {
        const uint64_t key = top_k_key(ascending[i], 77);
        REQUIRE(key > top_k_empty);
        REQUIRE(top_k_id(key) == 77);
        REQUIRE(top_k_logit(key) == ascending[i]);
        REQUIRE(key > top_k_key(ascending[i], 78));
        if (i > 0) REQUIRE(key > top_k_key(ascending[i - 1], 0));
    }
    REQUIRE(top_k_key(-0.0F, 5) == top_k_key(0.0F, 5));
    REQUIRE(top_k_key(std::nanf(""), 5) == top_k_key(-inf, 5));
}

TEST_CASE("merging top-k lists is taking the top k of everything", "[kernels][shared]") {
    Random random(43);
    for (int round = 0; round < 30; ++round) {
        const int64_t k = random.between(1, 20);
        std::vector<uint64_t> all;
        std::vector<std::vector<uint64_t>> lists(2, std::vector<uint64_t>(static_cast<size_t>(k), 0));
        for (size_t l = 0; l < 2; ++l) {
            for (int64_t i = random.between(0, 40); i > 0; --i) {
                const uint64_t key = kernels::shared::top_k_key(static_cast<float>(random.between(-5, 5)),
                                                                static_cast<uint32_t>(all.size()));
                all.push_back(key);
                kernels::shared::top_k_insert(lists[l].data(), k, key);
            }
        }
        std::ranges::sort(all, std::greater<>());
        all.resize(static_cast<size_t>(k), 0);
        std::vector<uint64_t> merged(static_cast<size_t>(k));
        kernels::shared::top_k_merge(lists[0].data(), k, lists[1].data(), k, merged.data(), k);
        REQUIRE(merged == all);
    }
}

} // namespace
} // namespace refreshlab
