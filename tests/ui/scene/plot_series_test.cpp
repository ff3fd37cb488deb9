#include "engine/signals/registry.h"
#include "tests/support/seed.h"
#include "ui/scene/series/series.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

namespace plot_series_test {

using namespace refreshlab;
using namespace refreshlab::ui;

namespace {

constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

/// Values of every kind: runs of numbers, runs of steps that were not measured, single NaN and infinities.
std::vector<float> random_values(std::mt19937& random, size_t n, double gaps) {
    std::uniform_real_distribution<double> unit(0, 1);
    std::vector<float> values;
    bool measured = true;
    for (size_t i = 0; i < n; ++i) {
        if (unit(random) < gaps) measured = !measured;
        const double kind = unit(random);
        float v = static_cast<float>(10 * unit(random) - 3);
        if (kind < 0.01) v = nan_value;
        if (kind > 0.985) v = infinity;
        if (kind > 0.995) v = -infinity;
        values.push_back(measured ? v : absent());
    }
    return values;
}

SignalSeries series_of(const std::vector<float>& values) {
    SignalSeries s;
    for (const float v : values)
        s.append(v);
    return s;
}

SeriesSummary plain_summary(const std::vector<float>& values, int64_t first, int64_t last) {
    SeriesSummary sum;
    for (int64_t t = std::max<int64_t>(first, 1);
         t <= std::min<int64_t>(last, static_cast<int64_t>(values.size())); ++t)
        sum.add(static_cast<int32_t>(t), values[static_cast<size_t>(t - 1)]);
    return sum;
}

struct Extent {
    double min = std::numeric_limits<double>::infinity(), max = -std::numeric_limits<double>::infinity();
    void add(double v) {
        min = std::min(min, v);
        max = std::max(max, v);
    }
    bool operator==(const Extent&) const = default;
};

} // namespace

TEST_CASE("a summary of any range equals the summary made value by value", "[plot]") {
    const unsigned seed = test::seed(GENERATE(1U, 2U, 3U, 4U));
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto values = random_values(random, 1 + random() % 700, 0.03);
    const SignalSeries s = series_of(values);
    for (int i = 0; i < 400; ++i) {
        const auto a = static_cast<int64_t>(random() % (values.size() + 4)) - 1;
        const auto b = a + static_cast<int64_t>(random() % (values.size() + 4)) - 2;
        CAPTURE(a, b, values.size());
        REQUIRE(s.summary(a, b) == plain_summary(values, a, b));
    }
}

TEST_CASE("back-filled series and a rebuilt one are the same at every range", "[plot]") {
    std::mt19937 random(test::seed(77));
    for (int round = 0; round < 20; ++round) {
        auto values = random_values(random, 300, 0.05);
        SignalSeries s;
        size_t n = 0;
        // Appends and back-fills in random order, as a live run makes them.
        while (n < values.size()) {
            s.append(values[n++]);
            if (random() % 4 == 0) {
                const size_t at = random() % n;
                values[at] = random() % 5 == 0 ? absent() : static_cast<float>(random() % 1000) / 7.0F;
                s.set(static_cast<int64_t>(at) + 1, values[at]);
            }
        }
        for (int64_t first = 1; first <= 300; first += 7)
            for (int64_t last = first; last <= 300; last += 13)
                REQUIRE(s.summary(first, last) == plain_summary(values, first, last));
        for (int64_t t = 1; t <= 300; ++t)
            REQUIRE(std::bit_cast<uint32_t>(s.at(t)) ==
                    std::bit_cast<uint32_t>(values[static_cast<size_t>(t - 1)]));
    }
}

TEST_CASE("the nearest measured step is found in both directions", "[plot]") {
    std::mt19937 random(test::seed(5));
    auto values = random_values(random, 900, 0.02);
    std::fill(values.begin() + 100, values.begin() + 500, absent()); // longer than several blocks
    const SignalSeries s = series_of(values);
    for (int64_t t = -1; t <= 905; ++t) {
        std::optional<int64_t> before, after;
        for (int64_t u = 1; u <= 900; ++u) {
            if (!std::isfinite(values[static_cast<size_t>(u - 1)])) continue;
            if (u <= t) before = u;
            if (u >= t && !after) after = u;
        }
        CAPTURE(t);
        REQUIRE(s.finite_at_or_before(t) == before);
        REQUIRE(s.finite_at_or_after(t) == after);
    }
}

TEST_CASE("a decimated line keeps the extremes of every column of the raw values", "[plot][SG7]") {
    const double gaps = GENERATE(0.001, 0.01, 0.2);
    CAPTURE(gaps);
    std::mt19937 random(test::seed(11));
    const auto values = random_values(random, 100'000, gaps);
    const SignalSeries s = series_of(values);
    PlotPath path;
    for (const double width : {300.0, 1111.0}) {
        for (int i = 0; i < 6; ++i) {
            const double x_min = static_cast<double>(random() % 60'000);
            const double x_max = x_min + 4000 + static_cast<double>(random() % 36'000);
            decimate(s, x_min, x_max, width, path);
            const int64_t w = path.column_steps;
            CAPTURE(x_min, x_max, width, w);
            REQUIRE(w > 1);
            REQUIRE(static_cast<double>(w) * width <= x_max - x_min);
            std::map<int64_t, Extent> drawn, raw;
            const auto take = [&](const std::vector<double>& xs, const std::vector<double>& ys) {
                for (size_t k = 0; k < xs.size(); ++k)
                    if (!std::isnan(ys[k])) drawn[(static_cast<int64_t>(xs[k]) - 1) / w].add(ys[k]);
            };
            take(path.x, path.y);
            take(path.marker_x, path.marker_y);
            const auto first = std::max<int64_t>(1, static_cast<int64_t>(x_min));
            const auto last = static_cast<int64_t>(x_max);
            for (int64_t c = (first - 1) / w; c <= (last - 1) / w; ++c) {
                for (int64_t t = c * w + 1; t <= std::min<int64_t>((c + 1) * w, s.size()); ++t)
                    if (std::isfinite(s.at(t))) raw[c].add(static_cast<double>(s.at(t)));
                REQUIRE(drawn[c] == raw[c]);
            }
            // O(width): four points and one gap per column, columns of at least half a pixel.
            REQUIRE(path.x.size() <= static_cast<size_t>(2 * width * 5 + 20));
            REQUIRE(std::ranges::is_sorted(path.x));
        }
    }
}

TEST_CASE("columns sit at the same steps wherever the view begins", "[plot]") {
    std::mt19937 random(test::seed(3));
    const SignalSeries s = series_of(random_values(random, 20'000, 0));
    PlotPath a, b;
    decimate(s, 1000, 11'000, 500, a);
    decimate(s, 1007, 11'007, 500, b); // follows by seven steps
    REQUIRE(a.column_steps == b.column_steps);
    // Every point in sight of both is the same point.
    size_t compared = 0;
    for (size_t i = 0; i < a.x.size(); ++i) {
        if (a.x[i] < 1100 || a.x[i] > 10'900 || std::isnan(a.y[i])) continue;
        bool found = false;
        for (size_t k = 0; k < b.x.size() && !found; ++k)
            found = b.x[k] == a.x[i] && b.y[k] == a.y[i];
        CAPTURE(a.x[i]);
        REQUIRE(found);
        ++compared;
    }
    REQUIRE(compared > 1000);
}

TEST_CASE("column widths are aligned, never wider than a pixel and never below half of one", "[plot]") {
    REQUIRE(column_steps(0.5) == 1);
    REQUIRE(column_steps(2.0) == 1);
    REQUIRE(column_steps(2.5) == 2);
    REQUIRE(column_steps(3.9) == 3);
    REQUIRE(column_steps(4.0) == 4);
    for (double spp = 2.01; spp < 5000; spp *= 1.037) {
        const int64_t w = column_steps(spp);
        CAPTURE(spp, w);
        REQUIRE(static_cast<double>(w) <= spp);
        REQUIRE(static_cast<double>(w) >= spp / 2);
    }
}

TEST_CASE("raw points: runs are lines, gaps are stairs, NaN breaks both, infinities go to the edge",
          "[plot][SG8]") {
    //                                    1  2  3         4         5  6         7          8  9
    const SignalSeries s =
        series_of({1, 2, absent(), absent(), 3, nan_value, absent(), 4, infinity, -infinity, 5, 6});
    PlotPath p;
    decimate(s, 0, 13, 800, p);
    REQUIRE(p.column_steps == 1);
    // The line 1-2, then 11-12; 5 and 8 stand alone.
    REQUIRE(p.x.size() == 6);
    REQUIRE(p.x[0] == 1);
    REQUIRE(p.x[1] == 2);
    REQUIRE(std::isnan(p.y[2]));
    REQUIRE(p.x[3] == 11);
    REQUIRE(p.y[4] == 6);
    REQUIRE(p.marker_x == std::vector<double>{5, 8});
    REQUIRE(p.marker_y == std::vector<double>{3, 4});
    // One stair, from 2 to 5 at the old value; across NaN there is none.
    REQUIRE(p.stair_x == std::vector<double>{2, 5, 5, 5});
    REQUIRE(p.stair_y[0] == 2);
    REQUIRE(p.stair_y[1] == 2);
    REQUIRE(p.stair_y[2] == 3);
    REQUIRE(std::isnan(p.stair_y[3]));
    REQUIRE(p.nan_x == std::vector<double>{6});
    REQUIRE(p.pos_inf_x == std::vector<double>{9});
    REQUIRE(p.neg_inf_x == std::vector<double>{10});
}

TEST_CASE("a decimated column that holds NaN says so and keeps its finite extremes", "[plot][SG8]") {
    std::vector<float> values(10'000, 1.0F);
    values[5000] = nan_value;
    values[5001] = infinity;
    PlotPath p;
    decimate(series_of(values), 0, 10'000, 500, p);
    REQUIRE(p.nan_x.size() == 1);
    REQUIRE(std::abs(p.nan_x[0] - 5001) <= static_cast<double>(p.column_steps));
    REQUIRE(p.pos_inf_x.size() == 1);
    REQUIRE(p.neg_inf_x.empty());
    for (const double y : p.y)
        REQUIRE((std::isnan(y) || y == 1.0));
}

TEST_CASE("a sparse signal is markers joined by stairs, and its stair reaches in from outside the view",
          "[plot]") {
    SignalSeries s;
    for (int t = 1; t <= 400; ++t)
        s.append(t % 64 == 0 ? static_cast<float>(t) : absent());
    PlotPath p;
    decimate(s, 70, 120, 600, p); // between the measurements at 64 and 128
    REQUIRE(p.x.empty());
    REQUIRE(p.marker_x == std::vector<double>{64, 128});
    REQUIRE(p.stair_x.front() == 64);
    REQUIRE(p.stair_x[1] == 128);
}

TEST_CASE("empty series, empty views and views beside the run draw nothing and do not fail", "[plot]") {
    PlotPath p;
    SignalSeries s;
    decimate(s, 0, 100, 500, p);
    REQUIRE(p.x.empty());
    s.append(absent());
    decimate(s, 0, 100, 500, p);
    REQUIRE((p.x.empty() && p.marker_x.empty()));
    s.append(2.0F);
    for (const auto& [a, b] :
         {std::pair{10.0, 10.0}, {20.0, 10.0}, {-50.0, -10.0}, {500.0, 900.0}, {0.0, 1e12}})
        decimate(s, a, b, 500, p);
    decimate(s, 0, 100, 0, p);
    REQUIRE(p.x.empty());
    REQUIRE_FALSE(s.finite_at_or_before(1).has_value());
    REQUIRE(s.finite_at_or_after(1) == 2);
}

TEST_CASE("an envelope is the lowest of the lower and the highest of the upper per column", "[plot][SG9]") {
    std::mt19937 random(test::seed(9));
    std::vector<float> low, high;
    for (int i = 0; i < 5000; ++i) {
        const auto mean = static_cast<float>(random() % 100) / 10.0F,
                   sd = static_cast<float>(random() % 20) / 10.0F;
        low.push_back(i % 100 < 5 ? absent() : mean - sd);
        high.push_back(i % 100 < 5 ? absent() : mean + sd);
    }
    std::vector<double> x, below, above;
    const SignalSeries lower = series_of(low), upper = series_of(high);
    envelope(lower, upper, 0, 5000, 200, x, below, above);
    const int64_t w = column_steps(5000.0 / 200);
    REQUIRE(x.size() == static_cast<size_t>((5000 + w - 1) / w));
    for (size_t c = 0; c < x.size(); ++c) {
        Extent l, h;
        for (int64_t t = static_cast<int64_t>(c) * w + 1;
             t <= std::min<int64_t>(5000, static_cast<int64_t>(c + 1) * w); ++t) {
            if (is_absent(low[static_cast<size_t>(t - 1)])) continue;
            l.add(static_cast<double>(low[static_cast<size_t>(t - 1)]));
            h.add(static_cast<double>(high[static_cast<size_t>(t - 1)]));
        }
        REQUIRE(below[c] == l.min);
        REQUIRE(above[c] == h.max);
    }
}

} // namespace plot_series_test
