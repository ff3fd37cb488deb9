#include "engine/record/export/metrics.h"
#include "tests/support/seed.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <random>
#include <vector>

namespace metrics_test {

using namespace refreshlab;

namespace {

double repetition3_by_pairs(const std::vector<int32_t>& y) {
    if (y.size() < 3) return 0;
    size_t unique = 0;
    for (size_t i = 0; i + 2 < y.size(); ++i) {
        bool seen = false;
        for (size_t j = 0; j < i; ++j)
            seen = seen || (y[i] == y[j] && y[i + 1] == y[j + 1] && y[i + 2] == y[j + 2]);
        if (!seen) ++unique;
    }
    return 1.0 - static_cast<double>(unique) / static_cast<double>(y.size() - 2);
}

} // namespace

TEST_CASE("repetition3 is 1 - unique/total over 3-grams", "[record]") {
    CHECK(repetition3(std::vector<int32_t>{}) == 0);
    CHECK(repetition3(std::vector<int32_t>{1, 1}) == 0);
    CHECK(repetition3(std::vector<int32_t>{1, 1, 1}) == 0);
    CHECK(repetition3(std::vector<int32_t>{1, 1, 1, 1}) == Catch::Approx(0.5));
    const uint64_t seed = test::seed(1);
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    for (int i = 0; i < 50; ++i) {
        std::vector<int32_t> y(random() % 60);
        for (int32_t& id : y)
            id = static_cast<int32_t>(random() % 3) - 1;
        REQUIRE(repetition3(y) == Catch::Approx(repetition3_by_pairs(y)));
    }
}

} // namespace metrics_test
