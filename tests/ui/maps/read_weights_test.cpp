// How much one step read each position: one head, or the mean of all.
#include "tests/support/seed.h"
#include "tests/ui/maps/heatmap_recording.h"
#include "ui/scene/attention/attention_map.h"
#include "ui/scene/attention/read_weights.h"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <utility>
#include <vector>

using namespace refreshlab;
using namespace refreshlab::ui;

TEST_CASE("weights of a step are those of its row, or the mean of all rows", "[attention]") {
    const uint32_t seed = test::seed(909);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> value(0, 1);
    const auto recording = test::empty_recording(Mode::overfill, 6);
    for (int i = 0; i < 5; ++i)
        test::append_step(*recording);
    auto rows = std::make_shared<AttentionRows>();
    rows->position = 9;
    rows->heads = 3;
    rows->keys = 10;
    rows->layers = {1, 4}; // not all layers were recorded
    for (int i = 0; i < 2 * 3 * 10; ++i)
        rows->weights.push_back(float_to_half(value(random)));
    recording->add_attention(rows);

    ReadWeights read;
    CHECK_FALSE(read.update(*recording, 8, {})); // of another query nothing is known
    CHECK(read.weights().empty());
    CHECK(read.largest() == 0);
    REQUIRE(read.update(*recording, 9, std::pair(4, 2)));
    REQUIRE(read.weights().size() == 10);
    for (size_t k = 0; k < 10; ++k)
        CHECK(read.weights()[k] == half_to_float(rows->weights[5 * 10 + k]));
    CHECK(read.largest() == *std::max_element(read.weights().begin() + 1, read.weights().end()));
    REQUIRE(read.update(*recording, 9, {}));
    for (size_t k = 0; k < 10; ++k) {
        double sum = 0;
        for (size_t row = 0; row < 6; ++row)
            sum += static_cast<double>(half_to_float(rows->weights[row * 10 + k]));
        CHECK(std::abs(static_cast<double>(read.weights()[k]) - sum / 6) < 1e-6);
    }
    // In bins of four keys each key has its share; the last two have a half of theirs.
    auto binned = std::make_shared<AttentionRows>(*rows);
    binned->edges = bin_edges(10, 4);
    binned->weights.resize(2 * 3 * 3);
    const std::vector<float> sums{0.5F, 0.25F, 0.125F};
    for (size_t i = 0; i < binned->weights.size(); ++i)
        binned->weights[i] = float_to_half(sums[i % 3]);
    recording->add_attention(binned);
    for (const auto& head : {std::optional(std::pair(4, 2)), std::optional<std::pair<int32_t, int32_t>>{}}) {
        REQUIRE(read.update(*recording, 9, head));
        REQUIRE(read.weights().size() == 10);
        for (size_t k = 0; k < 10; ++k)
            CHECK(std::abs(read.weights()[k] - (k < 8 ? sums[k / 4] / 4 : sums[2] / 2)) < 1e-6F);
    }
    const std::vector<float> row = attention_row(*recording, 9, AttentionOf::student, 1, 0);
    REQUIRE(row.size() == 10);
    CHECK(row[3] == 0.125F);
    CHECK(row[9] == 0.0625F);
    AttentionMap map;
    REQUIRE(map.update(*recording, {AttentionOf::student, {9, 9}, {1}, {0}, 64, 64}));
    CHECK(map.resolution().widest == 4);
    CHECK(map.largest_weight(0, 0, false) == 0.125);
    CHECK(map.largest_weight(0, 0, true) == 0.125); // the sink's neighbours have as much as the sink
    CHECK_FALSE(read.update(*recording, 9, std::pair(2, 0))); // a layer that was left out
    CHECK(read.weights().empty());
    CHECK_FALSE(read.update(*recording, 9, std::pair(1, 3)));
}
