#include "kernels/ops/row_results.h"
#include "kernels/ops/row_statistics.h"
#include "tests/kernels/simt/head_fixture.h"
#include "tests/support/share.h"

/// The answers of a decode step's row, which the head's blocks make, against the plain ATen reference.
namespace refreshlab::test::head_answers_simt {
namespace {

using namespace block_simt;
using head_simt::Head;
using kernels::DeviceAnswers;
using kernels::RowStatistics;
using kernels::TopK;

/// \param row  [1, vocab]: the logits that the answers are about
void require_answers(const DeviceAnswers& got, const at::Tensor& row, int64_t k) {
    REQUIRE(got.sequence == 41);
    const RowStatistics expected = kernels::reference::row_statistics(row)[0],
                        statistics = kernels::finish_row(got.sums);
    REQUIRE(statistics.finite == expected.finite);
    if (expected.finite) {
        REQUIRE(statistics.top1_id == expected.top1_id);
        REQUIRE(statistics.top1_logit == expected.top1_logit);
        REQUIRE(std::abs(statistics.log_z - expected.log_z) <= 1e-12 * std::abs(expected.log_z) + 1e-12);
        REQUIRE(std::abs(statistics.entropy_bits - expected.entropy_bits) <= 1e-9);
        REQUIRE(std::abs(statistics.varentropy_bits2 - expected.varentropy_bits2) <= 1e-8);
    } else {
        REQUIRE(got.sums.num_bad == (~row.isfinite()).sum().item<int64_t>());
    }
    const TopK expected_top = kernels::reference::top_k(row[0], k),
               top = kernels::finish_top_k(std::span(got.keys).first(static_cast<size_t>(k)));
    REQUIRE(top.ids == expected_top.ids);
    REQUIRE(top.logits == expected_top.logits);
}

TEST_CASE("the head's blocks answer about their logits: ties, infinities, numbers that are none",
          "[simt][decode]") {
    Random random(1181);
    constexpr int64_t hidden = 4;
    Share large("answers about rows of large vocabularies");
    // One block, one group, a group with one block more, more groups than a warp has places, more keys than a block holds at a time.
    for (const auto& [vocab, k] : {std::pair<int64_t, int64_t>{1, 1},
                                   {33, 10},
                                   {64, 0},
                                   {65, 64},
                                   {4096, 10},
                                   {4097, 3},
                                   {4160, 64},
                                   {12289, 8},
                                   {12289, 16},
                                   {12289, 17}, // lists are merged from here on
                                   {40001, 50},
                                   {270001, 5}}) {
        if (vocab > 10'000 && !large.takes()) continue;
        // Logits are the first column, times one number.
        Head head(random, WeightType::f32, vocab, hidden, 1);
        head.x = at::zeros({1, hidden});
        head.x[0][0] = 2.0;
        at::Tensor row = random.normal({1, vocab}, 3.0).mul(8).round().div(8); // ties
        if (vocab == 4096) {
            row[0][17] = nan;
            row[0][700] = -std::numeric_limits<double>::infinity();
        }
        if (vocab == 4160) row[0].narrow(0, 64, 64).fill_(nan); // a block of none
        if (vocab == 65) row.fill_(-3.25);                      // all the same
        at::Tensor weights = at::zeros({vocab, hidden});
        weights.select(1, 0).copy_(row[0]);
        const Weights matrix(weights, "head");
        DeviceAnswers first;
        simt::in_orders(vocab > 20'000 ? 1 : 4, [&](uint64_t order) {
            CAPTURE(vocab, k, order);
            at::Tensor logits;
            const DeviceAnswers got =
                head.run({matrix.device.data(), nullptr, vocab, hidden}, {.k = k}, &logits);
            require_answers(got, logits, k);
            REQUIRE(at::equal(logits.isfinite(), row.isfinite()));
            if (order == 0) first = got;
            REQUIRE(std::memcmp(&first.sums, &got.sums, sizeof got.sums) == 0);
        });
    }
}

TEST_CASE("MC rows beside it change nothing of the answers about the token's row", "[simt][decode]") {
    Random random(1182);
    for (const WeightType type : weight_types) {
        const int64_t vocab = random.between(130, 400), k = random.between(1, 20);
        const TestMatrix matrix(random, vocab, 40, type, true, "head");
        DeviceAnswers alone;
        Head head(random, type, vocab, 40, 30);
        const at::Tensor x = head.x;
        for (const int64_t rows : {1, 2, 9, 12, 20, 30}) {
            CAPTURE(static_cast<int>(type), vocab, k, rows);
            head.rows = rows;
            head.x = x.narrow(0, 0, rows);
            at::Tensor logits;
            const int64_t asked = random.between(0, vocab - 1);
            const DeviceAnswers got = head.run(matrix.in_use, {.k = k, .token = asked}, &logits);
            require_answers(got, logits.narrow(0, 0, 1), k);
            REQUIRE(got.asked_logit == logits[0][asked].item<float>());
            if (rows == 1) alone = got;
            REQUIRE(std::memcmp(&alone.sums, &got.sums, sizeof got.sums) == 0);
        }
    }
}

TEST_CASE("a head in blocks answers too", "[simt][decode][blocks]") {
    Random random(1183);
    for (const BlockType type : block_types) {
        const int64_t vocab = 16 * random.between(5, 20);
        const BlockMatrix matrix(random, type, vocab, 64, false, "head");
        for (const int64_t rows : {1, 3, 9}) {
            CAPTURE(static_cast<int>(type), vocab, rows);
            const Head head(random, WeightType::bf16, vocab, 64, rows);
            at::Tensor logits;
            const DeviceAnswers got = head.run(matrix.in_use, {.k = 9}, &logits);
            require_answers(got, logits.narrow(0, 0, 1), 9);
        }
    }
}

} // namespace
} // namespace refreshlab::test::head_answers_simt
