#include "engine/base/error.h"
#include "tests/support/seed.h"
#include "ui/base/colour.h"
#include "ui/scene/maps/colour_maps.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>

namespace heatmap_colour_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;

namespace {

// CIE lightness of an 0xAABBGGRR colour, by its own arithmetic.
double lightness(uint32_t colour) {
    double y = 0;
    const double weights[3] = {0.2126, 0.7152, 0.0722};
    for (int c = 0; c < 3; ++c) {
        const double v = static_cast<double>((colour >> (8 * c)) & 0xFFU) / 255.0;
        y += weights[c] * (v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4));
    }
    return y > 216.0 / 24389.0 ? 116.0 * std::cbrt(y) - 16.0 : y * 24389.0 / 27.0;
}

} // namespace

TEST_CASE("every colour map has 256 opaque entries and none of them is the colour of NaN", "[ui]") {
    REQUIRE(colour_map_names().size() == 5);
    for (const std::string_view name : colour_map_names()) {
        CAPTURE(name);
        REQUIRE(colour_map(name).size() == 256);
        for (const uint32_t c : colour_map(name)) {
            CHECK((c >> 24U) == 0xFFU);
            CHECK(c != nan_colour);
        }
    }
}

TEST_CASE("published entries of viridis and cividis come back", "[ui]") {
    CHECK(colour_map("viridis")[0] == 0xFF540144U);   // #440154
    CHECK(colour_map("viridis")[255] == 0xFF25E7FDU); // #fde725
    CHECK(colour_map("cividis")[0] == 0xFF4E2200U);   // #00224e
    CHECK(colour_map("cividis")[255] == 0xFF38E8FEU); // #fee838
}

TEST_CASE("lightness rises all along viridis and cividis, and falls all along greys", "[ui]") {
    for (const std::string_view name : {"viridis", "cividis"}) {
        CAPTURE(name);
        const auto map = colour_map(name);
        for (size_t i = 4; i < map.size(); i += 4) {
            CAPTURE(i);
            CHECK(lightness(map[i]) >
                  lightness(map[i - 4])); // every entry: rounding to 8 bits may stand still
        }
    }
    const auto greys = colour_map("greys");
    for (size_t i = 1; i < greys.size(); ++i)
        CHECK(lightness(greys[i]) < lightness(greys[i - 1]));
}

TEST_CASE("the signed map is lightest in its middle and blue below, red above", "[ui]") {
    const auto map = colour_map("rdbu");
    CHECK(lightness(map[127]) > 95);
    CHECK((map[40] >> 16U & 0xFFU) > (map[40] & 0xFFU));   // more blue than red
    CHECK((map[215] >> 16U & 0xFFU) < (map[215] & 0xFFU)); // more red than blue
}

TEST_CASE("the signed map of dark themes is darkest in its middle, and the same lightness on both sides",
          "[ui]") {
    const auto map = colour_map("rdbu_dark");
    CHECK(lightness(map[127]) < 12);
    CHECK((map[40] >> 16U & 0xFFU) > (map[40] & 0xFFU));
    CHECK((map[215] >> 16U & 0xFFU) < (map[215] & 0xFFU));
    for (size_t i = 4; i < 124; i += 4) {
        CAPTURE(i);
        CHECK(lightness(map[127 - i]) > lightness(map[127 - i + 4]));
        CHECK(lightness(map[128 + i]) > lightness(map[128 + i - 4]));
        CHECK(std::abs(lightness(map[127 - i]) - lightness(map[128 + i])) < 14);
    }
}

TEST_CASE("a symlog scale is odd about the middle of the map, rises, and value_at undoes it", "[ui]") {
    const ColourScale scale{colour_map("rdbu"), -0.4, 0.4, true};
    CHECK(scale.fraction(0) == 0.5);
    CHECK(scale.fraction(0.4) == 1);
    CHECK(scale.fraction(-7) == 0);
    CHECK(std::isnan(scale.fraction(std::nan(""))));
    double before = -1;
    for (double value = -0.4; value <= 0.4; value += 0.01) {
        const double f = scale.fraction(value);
        CHECK(f > before);
        before = f;
        CHECK(std::abs(scale.fraction(-value) - (1 - f)) < 1e-9);
        CHECK(std::abs(scale.value_at(f) - value) < 1e-9);
    }
    // One outlier does not flatten the rest: a hundredth of it is well away from the middle.
    CHECK(scale.fraction(0.004) > 0.55);
}

TEST_CASE("an unknown map is refused with the names that exist", "[ui]") {
    CHECK_THROWS_AS(colour_map("jet"), Error);
    CHECK_THROWS_WITH(colour_map("jet"), ContainsSubstring("jet") && ContainsSubstring("cividis"));
}

TEST_CASE("a scale sends its ends to the ends of the map, clamps outside and marks NaN", "[ui]") {
    for (const bool log : {false, true}) {
        CAPTURE(log);
        const ColourScale scale{colour_map("cividis"), 0.001, 8, log};
        CHECK(scale(0.001) == scale.map.front());
        CHECK(scale(8) == scale.map.back());
        CHECK(scale(-1e30) == scale.map.front());
        CHECK(scale(0) == scale.map.front());
        CHECK(scale(std::numeric_limits<double>::infinity()) == scale.map.back());
        CHECK(scale(std::nan("")) == nan_colour);
    }
}

TEST_CASE("a larger value never gets an earlier colour, and value_at undoes fraction", "[ui]") {
    const auto seed = test::seed(1);
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> exponent(-6, 3);
    for (int round = 0; round < 200; ++round) {
        double low = std::pow(10.0, exponent(random)), high = std::pow(10.0, exponent(random));
        if (low > high) std::swap(low, high);
        const ColourScale scale{colour_map("greys"), low, high, round % 2 == 0};
        double a = std::pow(10.0, exponent(random)), b = std::pow(10.0, exponent(random));
        if (a > b) std::swap(a, b);
        CHECK(scale.fraction(a) <= scale.fraction(b));
        const double inside = low + (high - low) * 0.37;
        CHECK_THAT(scale.value_at(scale.fraction(inside)), WithinRel(inside, 1e-9));
    }
}

TEST_CASE("an empty range shows the lowest colour instead of dividing by zero", "[ui]") {
    const ColourScale scale{colour_map("viridis"), 3, 3, false};
    CHECK(scale(3) == scale.map.front());
    CHECK(scale(99) == scale.map.front());
}

TEST_CASE("text on a colour is black on light and white on dark", "[ui]") {
    CHECK(readable_on(0xFFFFFFFFU) == 0xFF000000U);
    CHECK(readable_on(0xFF000000U) == 0xFFFFFFFFU);
    CHECK(readable_on(colour_map("viridis")[0]) == 0xFFFFFFFFU);
    CHECK(readable_on(colour_map("viridis")[255]) == 0xFF000000U);
}

TEST_CASE("the compiled tables are what the script makes of the control points", "[ui]") {
    const std::string command =
        std::string("python3 '") + RL_SOURCE_DIR + "/scripts/make_colour_maps.py' --check";
    CHECK(std::system(command.c_str()) == 0);
}

} // namespace heatmap_colour_test
