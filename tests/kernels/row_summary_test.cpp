#include "kernels/ops/row_summary.h"
#include "kernels/shared/check.h"
#include "kernels/shared/row_accumulators.h"
#include "tests/kernels/kernel_fixture.h"

#include <cstring>

namespace refreshlab {
namespace {

using kernels::Isa;
using kernels::RowAsk;
using kernels::RowSummary;
using test::Random;
using test::Setting;

bool same_double(double a, double b) {
    return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

at::Tensor rows_with_faults(Random& random, int64_t vocab) {
    at::Tensor rows = random.normal({6, vocab}, 3.0);
    rows[2].fill_(1.5); // all equal: every candidate ties
    rows[3][random.between(0, vocab - 1)] = static_cast<float>(test::nan);
    rows[4][random.between(0, vocab - 1)] = INFINITY;
    rows[5][random.between(0, vocab - 1)] = 30.0F; // nearly certain
    return rows;
}

TEST_CASE("one pass gives the bits of the single operations, whatever is asked beside", "[kernels][rows]") {
    Random random(41);
    for (const int64_t vocab : {1, 63, 65, 4096, 4097, 9001}) {
        const at::Tensor rows = rows_with_faults(random, vocab);
        const at::Tensor others = random.normal({3, vocab}, 3.0);
        std::vector<int32_t> tokens;
        for (int i = 0; i < 6; ++i)
            tokens.push_back(static_cast<int32_t>(random.between(-1, vocab - 1)));
        const std::vector<int64_t> kl_rows{2, -1, 0, 1, 1, 2};
        RowAsk ask;
        ask.top_k = std::min<int64_t>(vocab, random.between(1, 80)); // both ways of keeping a list
        ask.tokens = tokens;
        ask.kl_against = others;
        ask.kl_rows = kl_rows;
        for (const Isa isa : test::own_isas()) {
            const Setting setting(isa);
            CAPTURE(vocab, ask.top_k, std::string(to_string(isa)));
            const std::vector<RowSummary> all = kernels::summarize_rows(rows, ask);
            REQUIRE(all.size() == 6);
            for (int64_t r = 0; r < 6; ++r) {
                CAPTURE(r);
                const RowSummary& row = all[static_cast<size_t>(r)];
                const auto alone = kernels::row_statistics(rows.narrow(0, r, 1))[0];
                CHECK(same_double(row.statistics.log_z, alone.log_z));
                CHECK(same_double(row.statistics.entropy_bits, alone.entropy_bits));
                CHECK(same_double(row.statistics.varentropy_bits2, alone.varentropy_bits2));
                CHECK(row.statistics.top1_id == alone.top1_id);
                const kernels::TopK top = kernels::top_k(rows[r], ask.top_k);
                CHECK(row.top.ids == top.ids);
                CHECK(row.top.ids == kernels::reference::top_k(rows[r], ask.top_k).ids);
                const int32_t token = tokens[static_cast<size_t>(r)];
                const double logprob = token < 0 ? test::nan : rows[r][token].item<double>() - alone.log_z;
                CHECK(same_double(row.logprob, logprob));
                const int64_t other = kl_rows[static_cast<size_t>(r)];
                const double kl =
                    other < 0 ? test::nan
                              : kernels::kl_divergence(rows.narrow(0, r, 1), others.narrow(0, other, 1))[0];
                CHECK(same_double(row.kl_nats, kl));
            }
        }
    }
}

TEST_CASE("a part of an ask is the ask of a part", "[kernels][rows]") {
    Random random(42);
    const at::Tensor rows = random.normal({5, 300}, 2.0), others = random.normal({2, 300}, 2.0);
    const std::vector<int32_t> tokens{4, -1, 299, 0, 7};
    const std::vector<int64_t> kl_rows{0, 1, -1, 1, 0};
    RowAsk ask;
    ask.top_k = 3;
    ask.tokens = tokens;
    ask.kl_against = others;
    ask.kl_rows = kl_rows;
    const auto whole = kernels::summarize_rows(rows, ask);
    const auto part = kernels::summarize_rows(rows.narrow(0, 2, 3), ask.part(2, 3));
    for (size_t r = 0; r < 3; ++r) {
        CHECK(same_double(part[r].logprob, whole[r + 2].logprob));
        CHECK(same_double(part[r].kl_nats, whole[r + 2].kl_nats));
        CHECK(part[r].top.ids == whole[r + 2].top.ids);
    }
}

TEST_CASE("varentropy is the variance of the surprisal", "[kernels][rows]") {
    // Two tokens, p and 1 - p: variance p (1 - p) log2(p / (1 - p))^2.
    for (const double p : {0.5, 0.7, 0.999, 1e-6}) {
        const at::Tensor row =
            at::tensor({static_cast<float>(std::log(p)), static_cast<float>(std::log1p(-p))}).unsqueeze(0);
        const double odds = std::log2(p / (1 - p));
        const double expected = p * (1 - p) * odds * odds;
        for (const Isa isa : test::own_isas()) {
            const Setting setting(isa);
            const double ours = kernels::row_statistics(row)[0].varentropy_bits2;
            CAPTURE(p, ours, expected);
            CHECK(std::abs(ours - expected) <= 1e-5 * expected + 1e-9);
        }
    }
    Random random(43);
    for (const int64_t vocab : {7, 511, 4096, 12289}) {
        const at::Tensor rows = at::cat({random.normal({3, vocab}, 0.1), random.normal({3, vocab}, 5.0)});
        const auto expected = kernels::reference::row_statistics(rows);
        for (const Isa isa : test::own_isas()) {
            const Setting setting(isa);
            const auto ours = kernels::row_statistics(rows);
            for (size_t r = 0; r < ours.size(); ++r) {
                CAPTURE(vocab, r);
                CHECK(std::abs(ours[r].varentropy_bits2 - expected[r].varentropy_bits2) <=
                      1e-9 * expected[r].varentropy_bits2 + 1e-9);
            }
        }
    }
    CHECK(kernels::row_statistics(at::zeros({1, 1000}))[0].varentropy_bits2 == 0.0);
}

TEST_CASE("merged parts keep the squares, wherever a row is cut", "[kernels][rows]") {
    Random random(44);
    const at::Tensor row = random.normal({257}, 4.0);
    const float* const z = row.const_data_ptr<float>();
    kernels::shared::SoftmaxSums whole;
    for (int64_t i = 0; i < 257; ++i)
        whole.push(z[i], i);
    for (const int64_t cut : {1, 100, 256}) {
        kernels::shared::SoftmaxSums left, right;
        for (int64_t i = 0; i < 257; ++i)
            (i < cut ? left : right).push(z[i], i);
        left.merge(right);
        CHECK(std::abs(left.varentropy_nats2() - whole.varentropy_nats2()) < 1e-10);
    }
}

TEST_CASE("what does not fit is refused", "[kernels][rows]") {
    const at::Tensor rows = at::zeros({2, 10});
    const std::vector<int32_t> one{1}, outside{1, 10};
    const std::vector<int64_t> far{0, 1};
    RowAsk ask;
    ask.tokens = one;
    CHECK_THROWS_AS(kernels::summarize_rows(rows, ask), InvariantError);
    ask.tokens = outside;
    CHECK_THROWS_AS(kernels::summarize_rows(rows, ask), InvariantError);
    ask.tokens = {};
    ask.kl_rows = far;
    ask.kl_against = at::zeros({1, 10});
    CHECK_THROWS_AS(kernels::summarize_rows(rows, ask), InvariantError);
    ask.kl_against = at::zeros({2, 9});
    CHECK_THROWS_AS(kernels::summarize_rows(rows, ask), InvariantError);
}

} // namespace
} // namespace refreshlab
