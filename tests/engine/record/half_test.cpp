#include "engine/record/recording/step_record.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>

#include <bit>
#include <cmath>
#include <random>

namespace half_test {

using namespace refreshlab;

namespace {

/// Value of a half straight from the definition of IEEE binary16.
double defined_value(uint16_t half) {
    const int exponent = (half >> 10) & 31;
    const int fraction = half & 1023;
    const double sign = (half & 0x8000) != 0 ? -1 : 1;
    if (exponent == 0) return sign * std::ldexp(fraction, -24);
    return sign * std::ldexp(1024 + fraction, exponent - 25);
}

/// The nearest half by trying all of one sign, ties to the even fraction; overflow at the midpoint to the next power.
uint16_t nearest_by_search(float value) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const double magnitude = std::fabs(static_cast<double>(value));
    if (magnitude >= 65520) return sign | 0x7C00;
    uint16_t best = 0;
    double best_distance = 1e300;
    for (uint16_t half = 0; half < 0x7C00; ++half) {
        const double distance = std::fabs(defined_value(half) - magnitude);
        if (distance < best_distance || (distance == best_distance && half % 2 == 0)) {
            best = half;
            best_distance = distance;
        }
    }
    return sign | best;
}

} // namespace

TEST_CASE("every half reads as IEEE defines it and comes back unchanged", "[record]") {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
        const auto half = static_cast<uint16_t>(bits);
        const float value = half_to_float(half);
        if (((half >> 10) & 31) == 31) {
            if ((half & 1023) == 0) {
                REQUIRE(std::isinf(value));
                REQUIRE(std::signbit(value) == ((half & 0x8000) != 0));
                REQUIRE(float_to_half(value) == half);
            } else {
                REQUIRE(std::isnan(value));
                REQUIRE(std::isnan(half_to_float(float_to_half(value))));
            }
            continue;
        }
        REQUIRE(static_cast<double>(value) == defined_value(half));
        REQUIRE(std::signbit(value) == ((half & 0x8000) != 0));
        REQUIRE(float_to_half(value) == half);
    }
}

TEST_CASE("rounding to half is to nearest, ties to even", "[record]") {
    const uint64_t seed = test::seed(1);
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    for (int i = 0; i < 400; ++i) {
        // Exponents around and beyond both ends of the half range; every third one exactly between two halves.
        const auto exponent = static_cast<uint32_t>(100 + random() % 46);
        uint32_t fraction = static_cast<uint32_t>(random()) & 0x7FFFFFU;
        if (i % 3 == 0) fraction = (fraction & ~0x1FFFU) | 0x1000U;
        const float value =
            std::bit_cast<float>(static_cast<uint32_t>(random() & 1U) << 31U | exponent << 23U | fraction);
        INFO("value " << value);
        REQUIRE(float_to_half(value) == nearest_by_search(value));
    }
    for (const float value :
         {0x1p-25F, 0x1.000002p-25F, 0x1.8p-24F, 65519.996F, 65520.0F, 0x1.ffcp-15F, 0x1.ffep-15F}) {
        INFO("value " << value);
        REQUIRE(float_to_half(value) == nearest_by_search(value));
    }
}

} // namespace half_test
