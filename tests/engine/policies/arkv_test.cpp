// Eight-bit floating point, and ARKV by hand: evicted, coded or kept.
#include "engine/policies/methods/storage/fp8.h"
#include "tests/engine/policies/fake_cache.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <random>

namespace arkv_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Positions = std::vector<int64_t>;

TEST_CASE("e4m3: every code comes back, numbers go to the nearest, ties to even", "[policies]") {
    CHECK(from_e4m3(0x7E) == 448);
    CHECK(from_e4m3(0x38) == 1);
    CHECK(from_e4m3(0x01) == std::ldexp(1.0F, -9));
    CHECK(std::isnan(from_e4m3(0x7F)));
    for (int code = 0; code < 256; ++code)
        if ((code & 127) != 127) CHECK(to_e4m3(from_e4m3(static_cast<uint8_t>(code))) == code);
    CHECK(to_e4m3(1e9F) == 0x7E);
    CHECK(to_e4m3(-465) == 0xFE);
    CHECK(from_e4m3(to_e4m3(1.0625F)) == 1); // between 1 and 1.125: the even fraction
    CHECK(from_e4m3(to_e4m3(1.1875F)) == 1.25F);
    CHECK(from_e4m3(to_e4m3(std::ldexp(1.0F, -10))) == 0);
    CHECK(std::isnan(from_e4m3(to_e4m3(std::nanf("")))));
    std::mt19937_64 random(seed(0xE4));
    std::normal_distribution<float> normal;
    for (int i = 0; i < 2000; ++i) {
        const float x = normal(random) * std::ldexp(1.0F, static_cast<int>(random() % 20) - 12);
        float nearest = 1e9F;
        for (int code = 0; code < 256; ++code)
            if ((code & 127) != 127)
                nearest = std::min(nearest, std::abs(from_e4m3(static_cast<uint8_t>(code)) - x));
        CHECK(std::abs(from_e4m3(to_e4m3(x)) - x) == nearest);
    }
}

TEST_CASE("rows of fp8 have one scale each, and lose a sixteenth of a number at most", "[policies]") {
    const BlockShape shape{3, 4, StoredAs::bfloat16};
    const std::vector<float> rows{1, -0.5F, 0.3F, 0.01F, 0, 0, 0, 0, -7000, 35, 900, 2};
    const Fp8Rows codec;
    const EncodedBlock block = codec.encode(rows, shape);
    CHECK(block.payload.size() == 12);
    CHECK(block.metadata.size() == 12);
    std::vector<float> read(12, 5.0F);
    codec.decode(block, shape, read);
    for (size_t i = 0; i < 12; ++i) {
        const float most = i < 4 ? 1.0F : i < 8 ? 0.0F : 7000.0F;
        CHECK(std::abs(read[i] - rows[i]) <= std::max(std::abs(rows[i]) / 16, most / 448 / 1024) * 1.001F);
    }
    CHECK(std::abs(read[8] + 7000) < 1e-2F); // the largest is what the scale is made for
}

TEST_CASE("ARKV: layers that look little store what stays in eight bits, once and for good", "[policies]") {
    PolicyContext context;
    context.layers = 2;
    context.heads = context.kv_heads = 1;
    context.head_dim = 2;
    context.prompt_length = 8;
    context.rope_frequencies = {0.5F};
    const auto policy =
        make("arkv", {{"budget", 6}, {"window", 2}, {"kernel", 1}, {"tau1", 1}, {"tau2", 1}, {"tau3", 1}},
             context);
    CHECK(policy->needs().encodes);
    FakeCache cache(2, 1, 8);
    const auto read = [&](int64_t layer, std::vector<float> numbers) {
        const Rows rows(std::move(numbers), 2, 1);
        PromptView view;
        view.layer = layer;
        view.length = 8;
        view.rows = rows.cube;
        policy->read_prompt(view, cache);
    };
    // disp, var and kurtosis of layer 0: 1.92, 0.25 and 4 (two rows: 1 a column that changes); of layer 1: 0.27, 0.005 and 1. So o is 1
    // and 0.0007. Scores are those of the variance: 0 and 1 (0.08), 2 and 3 (0.045), then 4; in layer 1 column 1, then the newest.
    read(0, {0.4F, 0, 0.3F, 0, 0.1F, 0, 0.2F, 0, 0, 0.4F, 0, 0.3F, 0.1F, 0, 0.1F, 0.1F});
    read(1, {0, 0.9F, 0, 0, 0, 0, 0.1F, 0, 0, 0.8F, 0, 0, 0, 0, 0.1F, 0.1F});
    policy->finish_prompt(cache);
    CHECK(cache.of(0, 0) == Positions{0, 1, 2, 3, 6, 7});
    CHECK(cache.of(1, 0) == Positions{1, 3, 4, 5, 6, 7});
    const auto coded_of = [&](KvHalf half) {
        Positions positions;
        for (const FakeCache::Block& block : cache.blocks)
            if (block.half == half)
                positions.insert(positions.end(), block.positions.begin(), block.positions.end());
        return positions;
    };
    const auto step = [&](int64_t position, const std::vector<float>& row) {
        cache.append(position);
        for (const int64_t layer : {0, 1}) {
            const Rows rows(row, 1, 1);
            StepView view;
            view.layer = layer;
            view.position = position;
            view.row = rows.cube;
            policy->after_attention(view, cache);
        }
    };
    // Seven are more than six. Of the five before the newest two, three stay: those with 0.5, 0.2, 0.3.
    step(8, {0.1F, 0.5F, 0.2F, 0.3F, 0.05F, 0.9F, 0.9F});
    CHECK(cache.of(0, 0) == Positions{1, 2, 3, 7, 8});
    CHECK(cache.of(1, 0) == Positions{3, 4, 5, 7, 8});
    REQUIRE(cache.blocks.size() == 6); // layer 0 keeps four as they are, layer 1 none
    CHECK(coded_of(KvHalf::keys) == Positions{3, 4, 5});
    CHECK(coded_of(KvHalf::values) == Positions{3, 4, 5});
    step(9, std::vector<float>(6, 0.1F)); // six fit
    CHECK(cache.of(1, 0).size() == 6);
    step(10, {0.5F, 0.1F, 0.2F, 0.05F, 0.3F, 0, 0}); // of 3, 4, 5, 7, 8: full + coded + evicted = 5
    CHECK(cache.of(1, 0) == Positions{3, 5, 8, 9, 10});
    CHECK(coded_of(KvHalf::keys) == Positions{3, 4, 5, 8}); // 3 and 5 are coded already
    CHECK(coded_of(KvHalf::values) == Positions{3, 4, 5, 8});
}

TEST_CASE("ARKV: where layers are alike nothing is coded; a prompt that is all window has no preference",
          "[policies]") {
    PolicyContext context;
    context.layers = 2;
    context.heads = context.kv_heads = 1;
    context.head_dim = 2;
    context.prompt_length = 8;
    context.rope_frequencies = {0.5F};
    for (const int64_t window : {2, 8}) {
        const auto policy = make("arkv", {{"budget", 12}, {"window", static_cast<double>(window)}}, context);
        FakeCache cache(2, 1, 8);
        for (const int64_t layer : {0, 1}) {
            std::vector<float> numbers(static_cast<size_t>(window) * 8, 0.1F);
            numbers[3] = 0.3F;
            const Rows rows(numbers, window, 1);
            PromptView view;
            view.layer = layer;
            view.length = 8;
            view.rows = rows.cube;
            policy->read_prompt(view, cache);
        }
        policy->finish_prompt(cache);
        for (int64_t position = 8; position < 40; ++position) {
            cache.append(position);
            for (const int64_t layer : {0, 1}) {
                const Rows rows(std::vector<float>(cache.of(layer, 0).size(), 0.1F), 1, 1);
                StepView view;
                view.layer = layer;
                view.position = position;
                view.row = rows.cube;
                policy->after_attention(view, cache);
                CHECK(cache.of(layer, 0).size() <= 12);
            }
        }
        CHECK(cache.of(0, 0).back() == 39);
        CHECK(cache.blocks.empty());
    }
}

} // namespace arkv_test
