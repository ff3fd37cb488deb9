#include "engine/record/recording/step_record.h"
#include "engine/signals/registry.h"
#include "tests/support/seed.h"
#include "ui/base/colour.h"
#include "ui/scene/maps/heatmap.h"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace refreshlab;
using namespace refreshlab::ui;

TEST_CASE("the reduction factor is the smallest that fits", "[ui]") {
    for (int64_t texels = 1; texels <= 70; ++texels) {
        for (int64_t cells = 1; cells <= 700; cells += 3) {
            const int64_t factor = reduction_factor(cells, texels);
            CAPTURE(cells, texels, factor);
            CHECK(reduced_size(cells, factor) <= texels);
            if (factor > 1) CHECK(reduced_size(cells, factor - 1) > texels);
        }
    }
}

TEST_CASE("reducing weights by maximum equals the maximum of each block", "[ui]") {
    const auto seed = test::seed(1);
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 200; ++round) {
        const size_t n = 1 + random() % 300;
        const auto factor = static_cast<int64_t>(1 + random() % 9);
        std::vector<uint16_t> weights(n);
        std::vector<float> plain(n);
        for (size_t i = 0; i < n; ++i) {
            plain[i] = static_cast<float>(random() % 10000) / 10000.0F;
            weights[i] = float_to_half(plain[i]);
            plain[i] = half_to_float(weights[i]);
        }
        std::vector<HalfCell> out(static_cast<size_t>(reduced_size(static_cast<int64_t>(n), factor)),
                                  no_cell);
        merge_max(weights, factor, out);
        for (size_t block = 0; block < out.size(); ++block) {
            float expected = 0;
            for (size_t i = block * static_cast<size_t>(factor);
                 i < std::min(n, (block + 1) * static_cast<size_t>(factor)); ++i)
                expected = std::max(expected, plain[i]);
            CHECK(cell_value(out[block]) == static_cast<double>(expected));
        }
    }
}

TEST_CASE("a second row merged into the same cells keeps the larger weight of both", "[ui]") {
    const std::vector<uint16_t> a{float_to_half(0.5F), float_to_half(0.1F)},
        b{float_to_half(0.2F), float_to_half(0.3F)};
    std::vector<HalfCell> out(2, no_cell);
    merge_max(a, 1, out);
    merge_max(b, 1, out);
    CHECK(cell_value(out[0]) == 0.5);
    CHECK(cell_value(out[1]) == static_cast<double>(half_to_float(float_to_half(0.3F))));
}

TEST_CASE("markers lose against any weight, NaN wins, negative zero is zero", "[ui]") {
    std::vector<HalfCell> out{absent_cell, no_cell, absent_cell};
    merge_max(std::vector<uint16_t>{0x8000, 0x7E00, 0}, 1, out);
    CHECK(cell_value(out[0]) == 0.0);
    CHECK(std::isnan(cell_value(out[1])));
    CHECK(out[1] >= 0); // a measured NaN, not a marker
    CHECK(cell_value(out[2]) == 0.0);
    std::vector<HalfCell> block{no_cell};
    merge_max(std::vector<uint16_t>{float_to_half(0.9F), 0x7E00, float_to_half(0.2F)}, 3, block);
    CHECK(std::isnan(cell_value(block[0])));
    CHECK(block[0] >= 0);
}

TEST_CASE("cells get the colour that the scale gives their value", "[ui]") {
    const auto seed = test::seed(2);
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> exponent(-7, 0.3F);
    for (const bool log : {false, true}) {
        const ColourScale scale{colour_map("viridis"), log ? 1e-3 : 0.0, 0.8, log};
        std::vector<HalfCell> cells;
        for (int i = 0; i < 500; ++i)
            cells.push_back(static_cast<HalfCell>(float_to_half(std::pow(10.0F, exponent(random)))));
        cells.push_back(0);
        std::vector<uint32_t> rgba(cells.size());
        colour_cells(cells, scale, rgba);
        for (size_t i = 0; i < cells.size(); ++i) {
            CAPTURE(log, i, cell_value(cells[i]));
            // One entry of tolerance: the cells are coloured in single precision.
            const double place = scale.fraction(cell_value(cells[i])) * 255.0;
            const auto near = [&](double at) {
                return rgba[i] ==
                       scale.map[static_cast<size_t>(std::lround(std::min(255.0, std::max(0.0, at))))];
            };
            CHECK((near(place) || near(place - 0.01) || near(place + 0.01)));
        }
    }
}

TEST_CASE("cells without a value are transparent and NaN has its own colour", "[ui]") {
    const ColourScale scale{colour_map("cividis"), 0, 1, false};
    std::vector<uint32_t> rgba(4, 0x12345678U);
    colour_cells(std::vector<HalfCell>{no_cell, absent_cell, 0x7E00, 0}, scale, rgba);
    CHECK(rgba[0] == 0U);
    CHECK(rgba[1] == 0U);
    CHECK(rgba[2] == nan_colour);
    CHECK(rgba[3] == scale.map.front());
}

TEST_CASE("an empty colour range gives the first colour for every weight", "[ui]") {
    for (const bool log : {false, true}) {
        const ColourScale scale{colour_map("viridis"), 0.5, 0.5, log};
        std::vector<uint32_t> rgba(3);
        colour_cells(std::vector<HalfCell>{0, static_cast<HalfCell>(float_to_half(0.5F)), 0x3C00}, scale,
                     rgba);
        CHECK(rgba[0] == scale.map.front());
        CHECK(rgba[1] == scale.map.front());
    }
}

TEST_CASE("columns of a float map reduce by maximum; absent loses, NaN wins and stays apart from absent",
          "[ui]") {
    const auto seed = test::seed(3);
    CAPTURE(seed);
    std::mt19937 random(seed);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (int round = 0; round < 100; ++round) {
        const auto rows = static_cast<int64_t>(1 + random() % 4),
                   columns = static_cast<int64_t>(1 + random() % 50),
                   factor = static_cast<int64_t>(1 + random() % 6);
        std::vector<float> values(static_cast<size_t>(rows * columns));
        for (float& v : values) {
            const auto dice = random() % 10;
            v = dice < 3 ? absent() : dice == 3 ? nan : static_cast<float>(random() % 1000) / 100.0F;
        }
        const auto reduced = reduce_columns_max(values, rows, columns, factor);
        const int64_t width = reduced_size(columns, factor);
        REQUIRE(reduced.size() == static_cast<size_t>(rows * width));
        for (int64_t row = 0; row < rows; ++row) {
            for (int64_t block = 0; block < width; ++block) {
                bool any = false, any_nan = false;
                float top = -1;
                for (int64_t c = block * factor; c < std::min(columns, (block + 1) * factor); ++c) {
                    const float v = values[static_cast<size_t>(row * columns + c)];
                    if (is_absent(v)) continue;
                    any = true;
                    if (std::isnan(v))
                        any_nan = true;
                    else
                        top = std::max(top, v);
                }
                const float got = reduced[static_cast<size_t>(row * width + block)];
                CAPTURE(row, block);
                if (!any)
                    CHECK(is_absent(got));
                else if (any_nan)
                    CHECK((std::isnan(got) && !is_absent(got)));
                else
                    CHECK(got == top);
            }
        }
    }
}

TEST_CASE("ticks are round, inside the axis, and no more than fit", "[ui]") {
    CHECK(whole_ticks(0, 101, 6) == std::vector<int64_t>{0, 20, 40, 60, 80, 100});
    CHECK(whole_ticks(7, 12, 10) == std::vector<int64_t>{7, 8, 9, 10, 11});
    CHECK(whole_ticks(5, 5, 4).empty());
    CHECK(whole_ticks(0, 10, 0).empty());
    for (int64_t last = 1; last < 3000; last = last * 3 / 2 + 1) {
        for (int64_t room = 2; room < 12; ++room) {
            const auto ticks = whole_ticks(3, 3 + last, room);
            CAPTURE(last, room);
            CHECK(static_cast<int64_t>(ticks.size()) <= room);
            for (const int64_t t : ticks)
                CHECK((t >= 3 && t < 3 + last));
        }
    }
}
