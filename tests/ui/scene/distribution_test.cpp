#include "engine/signals/registry.h"
#include "tests/support/made_run.h"
#include "tests/support/seed.h"
#include "ui/scene/series/distribution.h"
#include "ui/scene/series/distribution_view.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace distribution_test {

using namespace refreshlab;
using namespace refreshlab::ui;

namespace {

constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

/// A recording whose entropies are these; every step took 2 ms of model time.
std::shared_ptr<Recording> recording_of(const std::vector<float>& values,
                                        const std::vector<float>& variances = {}) {
    RunInfo info = test::made_info(1);
    info.vocab_size = 4096;
    auto recording = test::made_run(info);
    for (size_t i = 0; i < values.size(); ++i) {
        StepRecord record = test::next_record(*recording);
        record.signals[*signal_id("entropy_bits")] = values[i];
        if (i < variances.size()) record.signals[*signal_id("mc_variance")] = variances[i];
        record.part_ms[0] = 2;
        recording->append(record);
    }
    return recording;
}

} // namespace

TEST_CASE("the signals of a distribution go by name, and stay chosen where a run lacks them", "[ui][SG12]") {
    std::vector<Signal> here(signals().begin(), signals().end()), there = here;
    Signal first = here[0], second = here[0];
    first.name = "published_here";
    second.name = "published_there";
    here.push_back(first);
    there.push_back(second); // the same number
    const DistributionView view{
        .signal = "published_here", .other = "entropy_bits", .in_sight = false, .log = true};
    CHECK(here[signals_of(view, here, "entropy_bits").signal].name == "published_here");
    const DistributionSignals in_other_run = signals_of(view, there, "kl_nats");
    CHECK(there[in_other_run.signal].name == "kl_nats"); // the one that decides, not what has its number
    CHECK(there[in_other_run.other.value()].name == "entropy_bits");
    CHECK_FALSE(signals_of(view, there, "entropy_bits").other.has_value()); // not against itself
    CHECK(here[signals_of({}, here, "mc_variance").signal].name == "mc_variance");
    RefreshPolicy policy = preset_policy("kl");
    CHECK(deciding_signal(policy) == "kl_nats");
    policy.triggers.at(0).enabled = false;
    CHECK(deciding_signal(policy) == "entropy_bits");
}

TEST_CASE("statistics of a range count what was measured there and nothing else", "[ui][distribution]") {
    const size_t entropy = *signal_id("entropy_bits");
    const auto recording = recording_of({9, 1, 2, absent(), 3, nan_value, 6, 100});
    RefreshEvent refresh;
    refresh.step = 5;
    refresh.teacher_ms = 3;
    refresh.splice_ms = 1;
    recording->add_refresh(refresh);
    refresh.step = 8;
    recording->add_refresh(refresh);
    const SignalStatistics s = signal_statistics(*recording, 8, entropy, 2, 7);
    CHECK(s.steps() == 6);
    CHECK(s.sorted == std::vector<double>{1, 2, 3, 6});
    CHECK(s.not_finite == 1);
    CHECK(s.measured() == 5);
    CHECK(s.mean == 3.0);
    CHECK(s.sd == Catch::Approx(std::sqrt(14.0 / 3)));
    CHECK(s.refreshes == 1);
    CHECK(s.refresh_ms == 4);
    CHECK(s.step_ms == 2.0);
    CHECK(signal_statistics(*recording, 8, entropy, -5, 900).steps() == 8);
    const SignalStatistics one = signal_statistics(*recording, 8, entropy, 1, 1);
    CHECK(one.mean == 9.0);
    CHECK_FALSE(one.sd);
    const SignalStatistics none = signal_statistics(*recording, 8, entropy, 9, 20);
    CHECK(none.steps() <= 0);
    CHECK((none.sorted.empty() && !none.mean && !none.step_ms && none.refreshes == 0));
    CHECK_FALSE(signal_statistics(*recording, 8, *signal_id("kl_nats"), 1, 8).mean);
}

TEST_CASE("values beyond a threshold are counted as the planner compares them", "[ui][distribution]") {
    const std::vector<double> sorted = {1, 2, 2, 2, 5};
    CHECK(count_beyond(sorted, Comparison::above, 2) == 1);
    CHECK(count_beyond(sorted, Comparison::at_least, 2) == 4);
    CHECK(count_beyond(sorted, Comparison::below, 2) == 1);
    CHECK(count_beyond(sorted, Comparison::at_most, 2) == 4);
    CHECK(count_beyond(sorted, Comparison::above, -1) == 5);
    CHECK(count_beyond({}, Comparison::above, 0) == 0);
}

TEST_CASE("bins are round, few enough, and hold every value once", "[ui][distribution]") {
    std::mt19937 random(test::seed(11));
    for (int round = 0; round < 500; ++round) {
        const double scale = std::pow(10.0, std::uniform_real_distribution<double>(-8, 8)(random));
        const double shift = std::uniform_real_distribution<double>(-3, 3)(random);
        std::vector<double> values(1 + random() % 300);
        for (double& value : values)
            value = (std::normal_distribution<double>()(random) + shift) * scale;
        if (round % 5 == 0) std::fill(values.begin(), values.end(), values[0]);
        std::ranges::sort(values);
        const int at_most = 2 + static_cast<int>(random() % 60);
        const Histogram h = histogram(values, at_most, round % 7 == 0);
        CAPTURE(round, scale, at_most, h.low, h.width);
        REQUIRE((!h.counts.empty() && h.counts.size() <= static_cast<size_t>(at_most)));
        double sum = 0;
        for (const double count : h.counts)
            sum += count;
        CHECK(sum == static_cast<double>(values.size()));
        CHECK(h.low <= values.front() + 1e-6 * h.width);
        CHECK(h.high() >= values.back() - 1e-6 * h.width);
        const double mantissa = h.width / std::pow(10.0, std::floor(std::log10(h.width * (1 + 1e-12))));
        CHECK((std::abs(mantissa - 1) < 1e-9 || std::abs(mantissa - 2) < 1e-9 ||
               std::abs(mantissa - 5) < 1e-9));
        // A plain count, away from the borders.
        for (size_t bin = 0; bin < h.counts.size(); ++bin) {
            const double a = h.low + h.width * static_cast<double>(bin), edge = 1e-6 * h.width;
            const auto inside = std::ranges::count_if(
                values, [&](double v) { return v >= a + edge && v < a + h.width - edge; });
            const auto around = std::ranges::count_if(
                values, [&](double v) { return v >= a - edge && v < a + h.width + edge; });
            CHECK((h.counts[bin] >= static_cast<double>(inside) &&
                   h.counts[bin] <= static_cast<double>(around)));
        }
        if (round % 7 == 0) CHECK(h.width >= 1);
    }
    CHECK(histogram({}, 20).counts.empty());
}

TEST_CASE("pairs are the steps at which both signals are numbers", "[ui][distribution][SG12]") {
    const size_t x = *signal_id("entropy_bits"), y = *signal_id("mc_variance");
    constexpr float inf = std::numeric_limits<float>::infinity();
    const auto recording =
        recording_of({1, 2, absent(), 4, nan_value, 6, 7, 8}, {2, 4, 1, 8, 1, inf, 14, absent()});
    const SignalPairs all = signal_pairs(*recording, 8, x, y, -3, 99);
    CHECK(all.x == std::vector<double>{1, 2, 4, 7});
    CHECK(all.y == std::vector<double>{2, 4, 8, 14});
    CHECK(all.correlation.value() == Catch::Approx(1)); // y = 2 x
    CHECK(signal_pairs(*recording, 8, x, y, 2, 6).x == std::vector<double>{2, 4});
    CHECK_FALSE(signal_pairs(*recording, 8, x, y, 1, 1).correlation); // one pair
    CHECK(signal_pairs(*recording, 8, x, y, 9, 99).x.empty());
    // Both must be beyond, each in the sense of its trigger.
    CHECK(count_beyond(all, Comparison::above, 1.5, Comparison::above, 4) == 2);
    CHECK(count_beyond(all, Comparison::above, 1.5, Comparison::at_least, 4) == 3);
    CHECK(count_beyond(all, Comparison::at_most, 2, Comparison::below, 4) == 1);
    const auto flat = recording_of({1, 2, 3}, {5, 5, 5});
    CHECK_FALSE(signal_pairs(*flat, 3, x, y, 1, 3).correlation);
}

TEST_CASE("a histogram of pairs counts every pair once, in the cell that holds it",
          "[ui][distribution][SG12]") {
    std::mt19937 random(test::seed(12));
    std::normal_distribution<double> normal(0, 1);
    for (int round = 0; round < 60; ++round) {
        SignalPairs pairs;
        const double stretch = std::pow(10.0, normal(random) * 2), shift = normal(random) * 50;
        const size_t n = random() % 300;
        for (size_t i = 0; i < n; ++i) {
            pairs.x.push_back(normal(random) * stretch);
            pairs.y.push_back(normal(random) + shift);
        }
        const int columns = 2 + static_cast<int>(random() % 40), rows = 2 + static_cast<int>(random() % 40);
        const PairHistogram h = pair_histogram(pairs, columns, rows);
        REQUIRE(h.x.counts.size() <= static_cast<size_t>(columns));
        REQUIRE(h.y.counts.size() <= static_cast<size_t>(rows));
        REQUIRE(h.counts.size() == h.x.counts.size() * h.y.counts.size());
        double all = 0, most = 0;
        for (size_t row = 0; row < h.y.counts.size(); ++row) {
            double in_row = 0;
            for (size_t column = 0; column < h.x.counts.size(); ++column) {
                // The plain way: who lies within the borders? (A value may lie on one, but for rounding.)
                const double x0 = h.x.low + h.x.width * static_cast<double>(column),
                             y0 = h.y.low + h.y.width * static_cast<double>(row), ex = 1e-9 * h.x.width,
                             ey = 1e-9 * h.y.width;
                double inside = 0, strictly = 0;
                for (size_t i = 0; i < n; ++i) {
                    const double dx = pairs.x[i] - x0, dy = pairs.y[i] - y0;
                    inside += dx >= -ex && dx <= h.x.width + ex && dy >= -ey && dy <= h.y.width + ey ? 1 : 0;
                    strictly += dx > ex && dx < h.x.width - ex && dy > ey && dy < h.y.width - ey ? 1 : 0;
                }
                REQUIRE(h.at(column, row) >= strictly);
                REQUIRE(h.at(column, row) <= inside);
                in_row += h.at(column, row);
                most = std::max(most, h.at(column, row));
            }
            REQUIRE(in_row == h.y.counts[row]); // rows and columns are the histograms of one signal
            all += in_row;
        }
        REQUIRE(all == static_cast<double>(n));
        REQUIRE(most == h.most);
    }
}

} // namespace distribution_test
