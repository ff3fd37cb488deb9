#include "tests/support/seed.h"
#include "tests/ui/maps/heatmap_recording.h"
#include "ui/base/colour.h"
#include "ui/scene/attention/attention_map.h"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

namespace heatmap_attention_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;

namespace {

std::shared_ptr<const AttentionRows> random_rows(std::mt19937& random, int64_t position,
                                                 std::vector<int32_t> layers, int64_t heads,
                                                 bool teacher = false) {
    AttentionRows rows;
    rows.position = position;
    rows.teacher = teacher;
    rows.heads = heads;
    rows.keys = position + 1;
    rows.layers = std::move(layers);
    for (size_t i = 0; i < rows.layers.size() * static_cast<size_t>(heads * rows.keys); ++i)
        rows.weights.push_back(float_to_half(static_cast<float>(random() % 4096) / 4096.0F));
    return std::make_shared<const AttentionRows>(rows);
}

/// What the map must hold, straight from the recording.
HalfCell expected_cell(const Recording& recording, const AttentionMap& map, size_t layer, size_t head,
                       int64_t row, int64_t column) {
    const auto& shape = map.shape();
    HalfCell top = no_cell;
    for (int64_t q = map.first_aligned() + row * map.query_factor();
         q < map.first_aligned() + (row + 1) * map.query_factor(); ++q) {
        if (!shape.window.contains(q)) continue;
        const auto rows = recording.attention(q, shape.of == AttentionOf::teacher);
        for (int64_t k = column * map.key_factor(); k < (column + 1) * map.key_factor() && k <= q; ++k) {
            const auto found = rows ? std::ranges::find(rows->layers, shape.layers[layer])
                                    : std::vector<int32_t>::const_iterator{};
            if (!rows || found == rows->layers.end()) {
                top = std::max(top, absent_cell);
                continue;
            }
            const auto at =
                ((found - rows->layers.begin()) * rows->heads + shape.heads[head]) * rows->keys + k;
            top = std::max(top, static_cast<HalfCell>(rows->weights[static_cast<size_t>(at)]));
        }
    }
    return top;
}

void check_all(const Recording& recording, const AttentionMap& map) {
    for (size_t l = 0; l < map.shape().layers.size(); ++l) {
        for (size_t h = 0; h < map.shape().heads.size(); ++h) {
            const auto cells = map.cells(l, h);
            REQUIRE(cells.size() == static_cast<size_t>(map.rows() * map.columns()));
            bool right = true;
            for (int64_t row = 0; row < map.rows(); ++row)
                for (int64_t column = 0; column < map.columns(); ++column)
                    right = right && cells[static_cast<size_t>(row * map.columns() + column)] ==
                                         expected_cell(recording, map, l, h, row, column);
            CAPTURE(l, h, map.rows(), map.columns(), map.query_factor(), map.key_factor());
            CHECK(right);
        }
    }
}

} // namespace

TEST_CASE("a growing run's map equals the maximum over its blocks at every step", "[ui]") {
    const auto seed = test::seed(1);
    CAPTURE(seed);
    std::mt19937 random(seed);
    const int64_t prompt = 5;
    const auto recording = empty_recording(Mode::overfill, prompt, 3, 4);
    AttentionMap map;
    QueryWindow window;
    for (int64_t t = 1; t <= 70; ++t) {
        append_step(*recording);
        // Now and then a row is missing, or holds some layers only.
        if (t % 7 != 0)
            recording->add_attention(
                random_rows(random, prompt + t - 1,
                            t % 5 == 0 ? std::vector<int32_t>{0, 2} : std::vector<int32_t>{0, 1, 2}, 4));
        window = next_window(window, prompt, prompt + t - 1, 24, true);
        CHECK(map.update(*recording, {AttentionOf::student, window, {0, 1, 2}, {1, 3}, 16, 8}));
        CHECK_FALSE(map.update(*recording, {AttentionOf::student, window, {0, 1, 2}, {1, 3}, 16, 8}));
        CHECK(map.columns() <= 16);
        CHECK(map.first_aligned() % map.query_factor() == 0); // a moving window must not shimmer
        CHECK(map.first_aligned() <= window.first_query);
        CHECK(map.first_aligned() + map.query_factor() > window.first_query);
        CHECK(map.rows() <= 9); // aligned blocks may need one more than the window alone
        if (t % 9 == 0 || t < 4) check_all(*recording, map);
    }
}

TEST_CASE("a row that arrives later is taken in", "[ui]") {
    std::mt19937 random(test::seed(7));
    const auto recording = empty_recording(Mode::overfill, 2, 1, 1);
    append_step(*recording);
    append_step(*recording);
    AttentionMap map;
    const AttentionMap::Shape shape{AttentionOf::teacher, {2, 3}, {0}, {0}, 8, 8};
    map.update(*recording, shape);
    CHECK(map.missing_rows() == 2);
    CHECK_FALSE(map.largest_weight(0, 0, false).has_value());
    recording->add_attention(random_rows(random, 3, {0}, 1, true));
    CHECK(map.update(*recording, shape));
    CHECK(map.missing_rows() == 1);
    CHECK(map.has_row(3));
    check_all(*recording, map);
}

TEST_CASE("the largest weight can leave position 0 out", "[ui]") {
    const auto recording = empty_recording(Mode::overfill, 2, 1, 1);
    append_step(*recording);
    AttentionRows rows;
    rows.position = 2;
    rows.heads = 1;
    rows.keys = 3;
    rows.layers = {0};
    rows.weights = {float_to_half(0.75F), float_to_half(0.125F), float_to_half(0.0625F)};
    recording->add_attention(std::make_shared<const AttentionRows>(rows));
    AttentionMap map;
    map.update(*recording, {AttentionOf::student, {2, 2}, {0}, {0}, 8, 8});
    CHECK(map.largest_weight(0, 0, false) == 0.75);
    CHECK(map.largest_weight(0, 0, true) == 0.125);
    CHECK(attention_row(*recording, 2, AttentionOf::student, 0, 0) ==
          std::vector<float>{0.75F, 0.125F, 0.0625F});
    CHECK(attention_row(*recording, 2, AttentionOf::student, 1, 0).empty()); // no such layer
    CHECK(attention_row(*recording, 2, AttentionOf::teacher, 0, 0).empty()); // not the teacher's
}

TEST_CASE("a map of differences holds teacher - student of the largest amount, with its sign", "[ui][AT6]") {
    std::mt19937 random(test::seed(3));
    const int64_t prompt = 4;
    const auto recording = empty_recording(Mode::overfill, prompt, 3, 4);
    for (int64_t t = 1; t <= 40; ++t) {
        append_step(*recording);
        if (t % 6 != 0) recording->add_attention(random_rows(random, prompt + t - 1, {0, 1, 2}, 4));
        if (t % 5 != 0) // a layer of one model alone has no difference
            recording->add_attention(random_rows(random, prompt + t - 1, {0, 2}, 4, true));
    }
    AttentionMap map;
    const std::vector<int32_t> layers{0, 1, 2}, heads{1, 3};
    map.update(*recording, {AttentionOf::difference, {prompt, prompt + 39}, layers, heads, 9, 14});
    REQUIRE(map.key_factor() > 1);
    REQUIRE(map.query_factor() > 1);
    const auto difference = [&](int64_t q, int64_t k, int32_t layer, int32_t head) -> std::optional<float> {
        const auto a = recording->attention(q, true), b = recording->attention(q, false);
        if (!a || !b || layer == 1) return std::nullopt;
        const auto at = [&](const AttentionRows& rows, int64_t index) {
            return half_to_float(rows.weights[static_cast<size_t>((index * 4 + head) * rows.keys + k)]);
        };
        return at(*a, layer / 2) - at(*b, layer);
    };
    for (size_t l = 0; l < layers.size(); ++l) {
        for (size_t h = 0; h < heads.size(); ++h) {
            const auto cells = map.cells(l, h);
            float largest_of_all = 0;
            for (int64_t row = 0; row < map.rows(); ++row) {
                for (int64_t column = 0; column < map.columns(); ++column) {
                    std::optional<float> top;
                    for (int64_t q = map.first_aligned() + row * map.query_factor();
                         q < map.first_aligned() + (row + 1) * map.query_factor(); ++q)
                        for (int64_t k = column * map.key_factor(); k < (column + 1) * map.key_factor();
                             ++k) {
                            if (q < prompt || q >= prompt + 40 || k > q) continue;
                            const auto d = difference(q, k, layers[l], heads[h]);
                            if (d && (!top || std::abs(*d) > std::abs(*top))) top = d;
                        }
                    const HalfCell cell = cells[static_cast<size_t>(row * map.columns() + column)];
                    CAPTURE(l, h, row, column);
                    REQUIRE((cell >= 0) == top.has_value());
                    if (!top) continue;
                    // A half has 11 bits; differences of one amount may have either sign.
                    REQUIRE(std::abs(std::abs(difference_value(cell)) - std::abs(double{*top})) < 5e-4);
                    if (std::abs(*top) > std::abs(largest_of_all)) largest_of_all = *top;
                }
            }
            const auto largest = map.largest_weight(l, h, false);
            REQUIRE(largest.has_value() == (layers[l] != 1));
            if (largest) REQUIRE(std::abs(std::abs(*largest) - std::abs(double{largest_of_all})) < 5e-4);
        }
    }
    // One cell per weight: the sign is that of teacher - student.
    map.update(*recording, {AttentionOf::difference, {prompt, prompt + 3}, {0}, {1}, 64, 64});
    int64_t seen = 0;
    for (int64_t q = prompt; q < prompt + 4; ++q)
        for (int64_t k = 0; k <= q; ++k, ++seen)
            REQUIRE(std::abs(difference_value(
                                 map.cells(0, 0)[static_cast<size_t>((q - prompt) * map.columns() + k)]) -
                             double{*difference(q, k, 0, 1)}) < 5e-4);
    CHECK(seen > 20);
    const auto row = attention_row(*recording, prompt, AttentionOf::difference, 0, 1);
    REQUIRE(row.size() == static_cast<size_t>(prompt) + 1);
    CHECK(row[2] == *difference(prompt, 2, 0, 1));
    CHECK(attention_row(*recording, prompt, AttentionOf::difference, 1, 1).empty());
    CHECK(attention_row(*recording, prompt + 5, AttentionOf::difference, 0, 1)
              .empty()); // step 6: the teacher's alone
    CHECK(top_keys(std::vector<float>{0.1F, -0.5F, 0.3F}, std::vector<int32_t>{1, 1, 1}, 2)[0].position ==
          1); // by amount
    CHECK(top_keys(std::vector<float>{0.1F, -0.5F, 0.3F}, std::vector<int32_t>{1, 4, 1}, 2)[0].position ==
          2); // a share is no key's weight
}

TEST_CASE("a cell of a difference keeps its sign, orders by amount and knows what is no number",
          "[ui][AT6]") {
    std::mt19937 random(test::seed(4));
    const auto draw = [&] { return static_cast<float>(static_cast<int>(random() % 4001) - 2000) / 2000.0F; };
    for (int round = 0; round < 2000; ++round) {
        const float a = draw(), b = draw();
        CAPTURE(a, b);
        REQUIRE(std::abs(difference_value(difference_cell(a)) - double{a}) <= 5e-4);
        if (std::abs(a) > std::abs(b) + 1e-3F) REQUIRE(difference_cell(a) > difference_cell(b));
        REQUIRE(difference_cell(a) >= 0);
    }
    CHECK(difference_value(difference_cell(-7.0F)) == -1.0);
    CHECK(difference_cell(-0.0F) == difference_cell(0.0F));
    const HalfCell no_number = difference_cell(std::numeric_limits<float>::quiet_NaN());
    CHECK(std::isnan(difference_value(no_number)));
    CHECK(no_number > difference_cell(1.0F));
    CHECK(std::isnan(difference_value(absent_cell)));
    const ColourScale scale{colour_map("rdbu"), -0.5, 0.5, false};
    const std::vector<HalfCell> cells{difference_cell(-0.5F), difference_cell(0.5F), no_number, absent_cell,
                                      no_cell};
    std::vector<uint32_t> rgba(cells.size());
    colour_differences(cells, scale, rgba);
    CHECK(rgba == std::vector<uint32_t>{scale.map.front(), scale.map.back(), nan_colour, 0U, 0U});
}

TEST_CASE("the window follows live steps, and stays while a selected step is inside it", "[ui]") {
    QueryWindow window;
    window = next_window(window, 10, 60, 16, true);
    CHECK(window == QueryWindow{45, 60});
    CHECK(next_window(window, 10, 50, 16, false) == window);
    CHECK(next_window(window, 10, 30, 16, false) == QueryWindow{15, 30});
    CHECK(next_window(window, 10, 50, 16, true) == QueryWindow{35, 50});  // live again
    CHECK(next_window(window, 10, 12, 16, false) == QueryWindow{10, 12}); // never into the prompt
    CHECK(next_window(window, 10, 50, 8, false).rows() <= 8);             // fewer rows asked for
}

TEST_CASE("top keys are the largest weights, largest first, NaN left out", "[ui]") {
    const auto seed = test::seed(2);
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 50; ++round) {
        std::vector<float> row(random() % 40);
        for (float& w : row)
            w = random() % 8 == 0 ? std::numeric_limits<float>::quiet_NaN()
                                  : static_cast<float>(random() % 50) / 50.0F;
        const size_t n = random() % 8;
        const auto keys = top_keys(row, std::vector<int32_t>(row.size(), 1), n);
        std::vector<float> sorted;
        for (const float w : row)
            if (w == w) sorted.push_back(w);
        std::ranges::sort(sorted, std::greater{});
        REQUIRE(keys.size() == std::min(n, sorted.size()));
        for (size_t i = 0; i < keys.size(); ++i) {
            CHECK(keys[i].weight == sorted[i]);
            CHECK(row[static_cast<size_t>(keys[i].position)] == keys[i].weight);
        }
    }
}

} // namespace heatmap_attention_test
