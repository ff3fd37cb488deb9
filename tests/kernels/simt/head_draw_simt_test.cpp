#include "tests/kernels/simt/head_fixture.h"
#include "tests/support/share.h"

#include <cmath>
#include <limits>

/// Tokens that the head's blocks draw, against the definition: a walk over the row in double.
namespace refreshlab::test::head_draw_simt {
namespace {

using namespace head_simt;
using kernels::DeviceAnswers;

constexpr double last_share = 1.0 - 1.0 / 9007199254740992.0; // the largest number that is drawn

/// Weights of a row, what is not finite without any, and their sum.
struct Walk {
    Walk(const at::Tensor& row, double temperature)
        : weights(static_cast<size_t>(row.numel()), 0.0) {
        const auto* const z = row.const_data_ptr<float>();
        double max = -std::numeric_limits<double>::infinity();
        for (size_t i = 0; i < weights.size(); ++i)
            if (std::isfinite(z[i])) max = std::max(max, static_cast<double>(z[i]));
        for (size_t i = 0; i < weights.size(); ++i) {
            const double d = (static_cast<double>(z[i]) - max) / temperature;
            if (std::isfinite(z[i]) && d >= -708) weights[i] = std::exp(d);
            total += weights[i];
        }
    }
    /// The share lies within the token's part of the sum, or so near to it that rounding decides.
    [[nodiscard]] bool draws(int64_t token, double share) const {
        double before = 0;
        for (int64_t i = 0; i < token; ++i)
            before += weights[static_cast<size_t>(i)];
        const double own = weights[static_cast<size_t>(token)], slack = 1e-13 * total, target = share * total;
        return own > 0 && before <= target + slack && target < before + own + slack;
    }
    std::vector<double> weights;
    double total = 0;
};

void require_draw(const DeviceAnswers& got, const at::Tensor& row, double temperature, double share) {
    const Walk walk(row, temperature);
    REQUIRE(std::abs(got.total - walk.total) <= 1e-12 * walk.total);
    if (share < 0 || walk.total == 0) {
        REQUIRE(got.drawn == -1);
        return;
    }
    REQUIRE(got.drawn >= 0);
    REQUIRE(got.drawn < row.numel());
    REQUIRE(walk.draws(got.drawn, share));
    REQUIRE(got.drawn_logit == row[got.drawn].item<float>());
}

/// A head whose logits are the numbers of a row.
struct RowHead {
    RowHead(Random& random, const at::Tensor& row)
        : head(random, WeightType::f32, row.numel(), 4, 1)
        , matrix(columns(row), "head") {
        head.x = at::zeros({1, 4});
        head.x[0][0] = 2.0; // after the norm the first is one number
    }
    [[nodiscard]] DeviceAnswers run(const Asked& asked, at::Tensor* logits) const {
        return head.run({matrix.device.data(), nullptr, head.vocab, 4}, asked, logits);
    }
    static at::Tensor columns(const at::Tensor& row) {
        at::Tensor weights = at::zeros({row.numel(), 4});
        weights.select(1, 0).copy_(row);
        return weights;
    }
    Head head;
    Weights matrix;
};

TEST_CASE("the head draws the token at a share of the row's weights, at every size and temperature",
          "[simt][decode]") {
    Random random(1191);
    Share sizes("draws from rows of every size");
    for (const int64_t vocab : {1, 33, 64, 65, 130, 4096, 4097, 12289, 270001}) {
        if (!sizes.takes()) continue;
        const RowHead head(random, random.normal({vocab}, 3.0));
        for (const double temperature : {0.7, 1e-6, 1e9}) {
            if (vocab > 100'000 && temperature != 0.7) continue;
            const double share = random.uniform(0.0, 1.0);
            DeviceAnswers first;
            simt::in_orders(vocab > 100'000  ? 1
                            : vocab > 10'000 ? 2
                                             : 3,
                            [&](uint64_t order) {
                                CAPTURE(vocab, temperature, order, share);
                                at::Tensor logits;
                                const DeviceAnswers got = head.run({.k = std::min<int64_t>(vocab, 3),
                                                                    .temperature = temperature,
                                                                    .share = share},
                                                                   &logits);
                                require_draw(got, logits[0], temperature, share);
                                if (order == 0) first = got;
                                REQUIRE(got.total == first.total);
                                REQUIRE(got.drawn == first.drawn);
                            });
        }
    }
}

TEST_CASE("shares near 0 and near 1 draw the first and the last token that has a weight", "[simt][decode]") {
    Random random(1192);
    for (const int64_t vocab : {64, 4170}) {
        at::Tensor row = random.normal({vocab}, 1.0);
        row[0] = -1e6; // no weight at temperature 1
        row[vocab - 1] = -1e6;
        const RowHead head(random, row);
        at::Tensor logits;
        for (const auto& [share, token] :
             {std::pair{0.0, int64_t{1}}, {1e-300, int64_t{1}}, {last_share, vocab - 2}}) {
            CAPTURE(vocab, share);
            const DeviceAnswers got = head.run({.temperature = 1.0, .share = share}, &logits);
            require_draw(got, logits[0], 1.0, share);
            REQUIRE(got.drawn == token);
        }
        REQUIRE(head.run({.temperature = 1e6, .share = 0.0}, &logits).drawn == 0);
    }
}

TEST_CASE("every token is drawn as often as its weight says", "[simt][decode]") {
    Random random(1193);
    const RowHead head(random, random.normal({330}, 1.0));
    at::Tensor logits;
    (void)head.run({}, &logits);
    const Walk walk(logits[0], 1.3);
    double passed = 0;
    for (int64_t token = 0; token < 330; ++token) {
        const double own = walk.weights[static_cast<size_t>(token)];
        if (token % 11 == 0) { // within its part of the sum, near both ends
            for (const double place : {0.001, 0.999}) {
                CAPTURE(token, place);
                const double share = (passed + place * own) / walk.total;
                REQUIRE(head.run({.temperature = 1.3, .share = share}, &logits).drawn == token);
            }
        }
        passed += own;
    }
}

TEST_CASE("what is no number is never drawn, whole blocks and groups of it neither", "[simt][decode]") {
    Random random(1194);
    constexpr float infinity = std::numeric_limits<float>::infinity();
    at::Tensor row = random.normal({8300}, 2.0);
    row.narrow(0, 0, 64).fill_(nan);
    row.narrow(0, 200, 30).fill_(-infinity);
    row.narrow(0, 4096, 4096).fill_(nan); // the second group
    const RowHead head(random, row);
    at::Tensor logits;
    for (const double share : {0.0, 0.2, 0.5, 0.97, last_share}) {
        CAPTURE(share);
        simt::in_orders(2, [&](uint64_t) {
            const DeviceAnswers got = head.run({.k = 5, .temperature = 0.9, .share = share}, &logits);
            REQUIRE(got.sums.num_bad == (~logits[0].isfinite()).sum().item<int64_t>());
            require_draw(got, logits[0], 0.9, share);
        });
    }
    const RowHead none(random, at::full({130}, nan));
    const DeviceAnswers got = none.run({.temperature = 0.9, .share = 0.5}, &logits);
    CHECK(got.drawn == -1);
    CHECK(got.total == 0);
}

TEST_CASE("a sum alone draws nothing", "[simt][decode]") {
    Random random(1195);
    const RowHead head(random, random.normal({700}, 2.0));
    at::Tensor logits;
    const DeviceAnswers sum = head.run({.k = 64, .temperature = 0.6}, &logits);
    require_draw(sum, logits[0], 0.6, -1);
    CHECK(sum.drawn == -1);
}

TEST_CASE("MC rows beside the token's, and heads in blocks, draw the same", "[simt][decode][blocks]") {
    Random random(1196);
    for (const WeightType type : weight_types) {
        const TestMatrix matrix(random, 300, 40, type, true, "head");
        Head head(random, type, 300, 40, 20);
        const at::Tensor x = head.x;
        int32_t alone = -1;
        for (const int64_t rows : {1, 2, 9, 20}) {
            CAPTURE(static_cast<int>(type), rows);
            head.rows = rows;
            head.x = x.narrow(0, 0, rows);
            at::Tensor logits;
            const DeviceAnswers got =
                head.run(matrix.in_use, {.k = 20, .temperature = 2.0, .share = 0.61}, &logits);
            require_draw(got, logits[0], 2.0, 0.61);
            if (rows == 1) alone = got.drawn;
            REQUIRE(got.drawn == alone);
        }
    }
    for (const BlockType type : block_types) {
        const BlockMatrix matrix(random, type, 176, 64, false, "head");
        for (const int64_t rows : {1, 9}) {
            CAPTURE(static_cast<int>(type), rows);
            const Head head(random, WeightType::bf16, 176, 64, rows);
            at::Tensor logits;
            const DeviceAnswers got =
                head.run(matrix.in_use, {.k = 9, .temperature = 0.5, .share = 0.4}, &logits);
            require_draw(got, logits[0], 0.5, 0.4);
        }
    }
}

} // namespace
} // namespace refreshlab::test::head_draw_simt
