// Statistics and turns against cases worked by hand.
#include "engine/base/check.h"
#include "engine/bench/measure/start_up.h"
#include "engine/bench/numbers/interleave.h"
#include "engine/bench/numbers/statistics.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <string>

using namespace refreshlab;
using namespace refreshlab::bench;
using Catch::Approx;

TEST_CASE("a spread is the median, the quartiles and the ends", "[bench]") {
    const Spread s = spread_of({9, 1, 5, 3, 7});
    CHECK(s == Spread{.count = 5, .median = 5, .low = 3, .high = 7, .min = 1, .max = 9});
    CHECK(spread_of({4, 1}).median == Approx(2.5));
    CHECK(spread_of({4, 1}).low == Approx(1.75));
    CHECK(spread_of({9, 1, 5, 3, 7}, 0.5).high == Approx(3.5));
    CHECK(spread_of({}) == Spread{});
}

TEST_CASE("latencies are percentiles of the steps", "[bench]") {
    std::vector<double> steps;
    for (int i = 100; i >= 0; --i)
        steps.push_back(i); // 0 .. 100: percentile p is p
    const Latency l = latency_of(steps);
    CHECK(l == Latency{.count = 101, .p50 = 50, .p90 = 90, .p99 = 99, .max = 100});
    steps.push_back(1000);
    CHECK(latency_of(steps).max == 1000);
    CHECK(latency_of(steps).p50 == Approx(50.5));
    CHECK(latency_of({}) == Latency{});
}

TEST_CASE("two sides take turns, and who begins alternates", "[bench]") {
    std::string order;
    int a_calls = 0, b_calls = 0;
    const double b_ms[] = {100, 12, 11, 30, 11, 9}; // the first call warms up
    const Side a = [&](int64_t steps) {
        order += 'a';
        return ++a_calls == 1 ? 100.0 : 2.5 * static_cast<double>(steps);
    };
    const Side b = [&](int64_t) {
        order += 'b';
        return b_ms[b_calls++];
    };
    const PairedCost cost = compare_in_turns(a, b, 5, 4);
    CHECK(order == "ab"
                   "ab"
                   "ba"
                   "ab"
                   "ba"
                   "ab");
    CHECK(cost.pairs == 5);
    CHECK(cost.a_ms.median == Approx(2.5)); // of a step
    // b / a = 1.2, 1.1, 3.0, 1.1, 0.9: one bad pair does not move the median.
    CHECK(cost.ratio.median == Approx(1.1));
    CHECK(cost.ratio.max == Approx(3));
    CHECK(cost.overhead_percent() == Approx(10));
    CHECK(cost.b_ms.median == Approx(2.75));
    CHECK_THROWS_AS(compare_in_turns(a, b, 0, 4), InvariantError);
}

TEST_CASE("the parts of a start are lengths, and add up to the whole", "[bench]") {
    const auto start = [](int64_t began, int64_t link, int64_t load, int64_t peak) {
        StartUpMarks marks;
        marks.ends = {{"libraries", began + link}, {"weights", began + link + load}};
        marks.libraries_bytes = 1000;
        marks.peak_bytes = peak;
        marks.tokens = 7;
        return Start{began, marks_from("a note\n" + to_line(marks) + "\n")}; // as it comes back from a child
    };
    const StartUp s =
        start_up_of({start(5'000'000, 1'000'000, 3'000'000, 10), start(1'000, 2'000'000, 3'500'000, 20),
                     start(2'000, 9'000'000, 4'000'000, 30)});
    REQUIRE(s.parts.size() == 2);
    CHECK(s.parts[0].first == "libraries");
    CHECK(s.parts[0].second.median == Approx(2));
    CHECK(s.parts[1].second.median == Approx(3.5));
    CHECK(s.total_ms.median == Approx(5.5));
    CHECK(s.peak_bytes.median == Approx(20));
    CHECK(s.libraries_bytes.count == 3);
    CHECK(s.tokens == 7);
    CHECK_THROWS(marks_from("no such line"));
}
