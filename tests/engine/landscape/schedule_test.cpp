#include "engine/landscape/best_schedule.h"
#include "engine/landscape/staircase.h"
#include "tests/engine/landscape/random_landscape.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <algorithm>
#include <bit>
#include <limits>

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::WithinAbs;

namespace {

/// Every schedule over the rows that are there, by its bits.
std::vector<int64_t> schedule_of(const std::vector<int64_t>& rows, uint32_t bits) {
    std::vector<int64_t> steps;
    for (size_t i = 1; i < rows.size(); ++i) {
        if ((bits >> (i - 1) & 1U) != 0) steps.push_back(rows[i]);
    }
    return steps;
}

} // namespace

TEST_CASE("the best schedules are those that trying all of them finds", "[landscape]") {
    std::mt19937 random(seed(0xDE51));
    for (int round = 0; round < 24; ++round) {
        const auto tokens = static_cast<int64_t>(2 + random() % 11);
        const Landscape landscape = random_landscape(random, tokens, 1 + random() % 3);
        const std::vector<int64_t> rows = landscape.rows();
        std::vector<double> least(rows.size(), std::numeric_limits<double>::infinity());
        const double price = 0.7 * static_cast<double>(random() % 8);
        double least_price = std::numeric_limits<double>::infinity();
        for (uint32_t bits = 0; bits < 1U << (rows.size() - 1); ++bits) {
            const auto steps = schedule_of(rows, bits);
            const double loss = walk_schedule(landscape, steps).loss;
            least[steps.size()] = std::min(least[steps.size()], loss);
            least_price = std::min(least_price, loss * static_cast<double>(landscape.num_steps()) +
                                                    price * static_cast<double>(steps.size()));
        }
        const auto best = best_schedules(landscape, tokens + 3);
        REQUIRE(best.size() == rows.size());
        double lowest = std::numeric_limits<double>::infinity();
        for (size_t k = 0; k < best.size(); ++k) {
            REQUIRE(best[k].steps.size() == k);
            REQUIRE_THAT(best[k].loss, WithinAbs(least[k], 1e-12));
            REQUIRE_THAT(walk_schedule(landscape, best[k].steps).loss, WithinAbs(best[k].loss, 1e-12));
            lowest = std::min(lowest, best[k].loss);
            REQUIRE(best_of_at_most(best, k).loss == lowest);
        }
        const Schedule priced = best_at_price(landscape, price);
        REQUIRE_THAT(priced.loss * static_cast<double>(landscape.num_steps()) +
                         price * static_cast<double>(priced.steps.size()),
                     WithinAbs(least_price, 1e-10));
        // Fewer may be asked for, and are the same.
        const auto some = best_schedules(landscape, 2);
        for (size_t k = 0; k < some.size(); ++k)
            REQUIRE(some[k].steps == best[k].steps);
    }
}

TEST_CASE("what a price makes the best stands on the hull, and the hull is what prices find", "[landscape]") {
    std::mt19937 random(seed(0xDE52));
    for (int round = 0; round < 10; ++round) {
        const Landscape landscape = random_landscape(random, 40);
        const auto best = best_schedules(landscape, 40);
        const auto hull = hull_of(best);
        REQUIRE(hull.front() == 0);
        std::vector<bool> found(best.size());
        const auto total = [&](size_t k) {
            return best[k].loss * static_cast<double>(landscape.num_steps());
        };
        for (double price = 0; price < 60; price += 0.37) {
            const Schedule priced = best_at_price(landscape, price);
            REQUIRE(std::ranges::find(hull, priced.steps.size()) != hull.end());
            REQUIRE_THAT(priced.loss, WithinAbs(best[priced.steps.size()].loss, 1e-10));
        }
        for (size_t i = 1; i + 1 < hull.size(); ++i) { // a price between the slopes on both sides
            const double before = (total(hull[i - 1]) - total(hull[i])) /
                                  static_cast<double>(hull[i] - hull[i - 1]),
                         after = (total(hull[i]) - total(hull[i + 1])) /
                                 static_cast<double>(hull[i + 1] - hull[i]);
            REQUIRE(before > after);
            REQUIRE(best_at_price(landscape, (before + after) / 2).steps.size() == hull[i]);
        }
    }
}

TEST_CASE("blind placement never beats the best of its count", "[landscape]") {
    std::mt19937 random(seed(0xDE53));
    for (int round = 0; round < 10; ++round) {
        const Landscape landscape = random_landscape(random, 3 + random() % 60);
        const auto best = best_schedules(landscape, landscape.num_rows());
        for (int64_t k = 1; k < landscape.num_rows(); ++k) {
            const auto blind = blind_placement(landscape, k);
            REQUIRE(blind.has_value());
            REQUIRE(static_cast<int64_t>(blind->best.steps.size()) == k);
            REQUIRE(blind->phases == blind->stride);
            REQUIRE(blind->best.loss >= best[static_cast<size_t>(k)].loss - 1e-12);
            REQUIRE(blind->best.loss <= blind->mean_loss + 1e-12);
            REQUIRE(blind->mean_loss <= blind->worst.loss + 1e-12);
        }
        CHECK_FALSE(blind_placement(landscape, 0).has_value());
        CHECK_FALSE(blind_placement(landscape, landscape.num_rows()).has_value());
    }
    const Landscape coarse = random_landscape(random, 66, 16); // rows 0, 16, 32, 48, 64
    const auto blind = blind_placement(coarse, 4);
    REQUIRE(blind.has_value());
    CHECK(blind->best.steps == std::vector<int64_t>{16, 32, 48, 64});
    CHECK(blind->phases == 1);
    CHECK(blind_placement(coarse, 1)->phases == 4);
    CHECK_FALSE(blind_placement(coarse, 3).has_value()); // a stride of 21 meets no two of its rows
}

TEST_CASE("a periodic policy walks to the refreshes of its stride and costs what the schedule costs",
          "[landscape]") {
    std::mt19937 random(seed(0xDE54));
    const Landscape landscape = random_landscape(random, 50);
    for (const double stride : {1.0, 3.0, 7.0, 16.0, 48.0, 49.0}) {
        RefreshPolicy policy = preset_policy("periodic");
        policy.triggers[0].threshold = stride;
        std::vector<int64_t> expected;
        for (auto t = static_cast<int64_t>(stride); t <= landscape.num_steps() - 1;
             t += static_cast<int64_t>(stride))
            expected.push_back(t);
        const Staircase walk = walk_policy(landscape, policy);
        CHECK(walk.refreshes == expected);
        CHECK(walk.loss == walk_schedule(landscape, expected).loss);
    }
}

TEST_CASE("a staircase's loss is its rows' costs, and a gain is what one refresh more saves", "[landscape]") {
    std::mt19937 random(seed(0xDE55));
    const Landscape landscape = random_landscape(random, 30);
    const int64_t end = landscape.num_steps();
    for (int round = 0; round < 20; ++round) {
        const auto i = static_cast<int64_t>(2 + random() % 26),
                   j = static_cast<int64_t>(random() % static_cast<uint32_t>(i));
        const double without = row_cost(landscape, j, end),
                     with = row_cost(landscape, j, i) + row_cost(landscape, i, end);
        CHECK_THAT(refresh_gain(landscape, j, i), WithinAbs(without - with, 1e-10));
        std::vector<int64_t> steps;
        if (j > 0) steps.push_back(j);
        const double before = walk_schedule(landscape, steps).loss;
        steps.push_back(i);
        CHECK_THAT(
            refresh_gain(landscape, j, i),
            WithinAbs((before - walk_schedule(landscape, steps).loss) * static_cast<double>(end), 1e-10));
        CHECK_THAT(refresh_gain(landscape, j, i, 1),
                   WithinAbs(landscape.loss(j, i + 1) - landscape.loss(i, i + 1), 1e-12));
        CHECK(refresh_gain(landscape, j, i, 1000) == refresh_gain(landscape, j, i));
    }
}

TEST_CASE("efficiency is 0 without refreshes, 1 at the best, negative when worse than none", "[landscape]") {
    CHECK(efficiency(2.0, 2.0, 1.0) == 0.0);
    CHECK(efficiency(2.0, 1.0, 1.0) == 1.0);
    CHECK(efficiency(2.0, 1.5, 1.0) == 0.5);
    CHECK(*efficiency(2.0, 3.0, 1.0) < 0);
    CHECK_FALSE(efficiency(2.0, 2.0, 2.0).has_value());
    CHECK_FALSE(efficiency(2.0, 2.0, 2.5).has_value());
}

TEST_CASE("levels bring every wanted row once, coarse ones first", "[landscape]") {
    const auto levels = landscape_levels(70, 1);
    REQUIRE(levels.size() == 6);
    CHECK(levels[0] == std::vector<int64_t>{0, 32, 64});
    CHECK(levels[1] == std::vector<int64_t>{16, 48});
    std::vector<int64_t> all;
    for (const auto& level : levels)
        all.insert(all.end(), level.begin(), level.end());
    std::ranges::sort(all);
    for (int64_t j = 0; j < 70; ++j)
        REQUIRE(all[static_cast<size_t>(j)] == j);
    CHECK(all.size() == 70);
    const auto odd = landscape_levels(70, 5);
    CHECK(odd[0] == std::vector<int64_t>{0, 20, 40, 60});
    CHECK(odd.back() == std::vector<int64_t>{5, 15, 25, 35, 45, 55, 65});
    CHECK(landscape_levels(1, 64).size() == 1);
    const auto of_long_text = landscape_levels(9'999, 1);
    CHECK(of_long_text[0].size() == 20); // every 512th
    CHECK(of_long_text[1].size() == 20); // those half way between
}
