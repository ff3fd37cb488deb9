// Arithmetic that cache policies share.
#include "engine/policies/cache_scores.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <numeric>
#include <random>

namespace cache_scores_test {

using namespace refreshlab;

TEST_CASE("the largest scores, ties to the higher index, in the order of the list", "[policies]") {
    std::mt19937_64 random(test::seed(8130));
    for (int round = 0; round < 300; ++round) {
        const auto n = static_cast<int64_t>(random() % 40);
        std::vector<float> scores;
        for (int64_t i = 0; i < n; ++i)
            scores.push_back(static_cast<float>(random() % 8)); // some are alike
        for (const int64_t k : {int64_t{0}, int64_t{1}, n / 2, n - 1, n, n + 3}) {
            std::vector<int64_t> wanted(scores.size());
            std::iota(wanted.begin(), wanted.end(), 0);
            std::ranges::sort(wanted, [&](int64_t a, int64_t b) {
                return std::pair(scores[static_cast<size_t>(a)], a) >
                       std::pair(scores[static_cast<size_t>(b)], b);
            });
            wanted.resize(static_cast<size_t>(std::clamp<int64_t>(k, 0, n)));
            std::ranges::sort(wanted);
            CAPTURE(scores, k);
            REQUIRE(cache_scores::top(scores, k) == wanted);
        }
    }
}

TEST_CASE("a mean over heads that is added has the bits of the mean", "[policies]") {
    std::mt19937_64 random(test::seed(8131));
    std::normal_distribution<float> normal;
    for (int round = 0; round < 60; ++round) {
        const size_t n = random() % 70, heads = random() % 7 + 1, longer = random() % 3;
        std::vector<std::vector<float>> rows(heads, std::vector<float>(n + longer));
        for (auto& row : rows)
            std::ranges::generate(row, [&] { return normal(random); });
        std::vector<float> sums(n);
        std::ranges::generate(sums, [&] { return normal(random); });
        const std::vector<std::span<const float>> spans(rows.begin(), rows.end());
        std::vector<float> wanted = sums;
        const std::vector<float> mean = cache_scores::reduce_group(spans, cache_scores::Group::mean);
        for (size_t i = 0; i < n; ++i)
            wanted[i] += mean[i];
        cache_scores::add_group_mean(spans, sums);
        REQUIRE(sums == wanted);
    }
}

} // namespace cache_scores_test
