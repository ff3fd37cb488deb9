#include "engine/base/error.h"
#include "engine/signals/registry.h"
#include "tests/support/seed.h"
#include "ui/scene/axes/signal_choice.h"
#include "ui/scene/axes/time_view.h"
#include "ui/scene/axes/value_axis.h"
#include "ui/scene/policy/thresholds.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace value_axis_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using Catch::Approx;

namespace {

ValueAxis axis_of(AxisScale scale, double min, double max, double linear_until = 1e-3) {
    return {scale, min, max, linear_until};
}

SeriesSummary summary_of(const std::vector<float>& values) {
    SeriesSummary sum;
    for (size_t i = 0; i < values.size(); ++i)
        sum.add(static_cast<int32_t>(i) + 1, values[i]);
    return sum;
}

constexpr double open_end = std::numeric_limits<double>::max();
constexpr ValueRange usual{0, 12};

} // namespace

TEST_CASE("values and places of an axis are the same in both directions and in the same order",
          "[plot][SG11]") {
    std::mt19937 random(test::seed(40));
    std::uniform_real_distribution<double> exponent(-6, 6), share(-0.5, 1.5);
    for (int round = 0; round < 200; ++round) {
        for (const AxisScale scale : axis_scales) {
            double low = std::pow(10.0, exponent(random)),
                   high = low * (1 + std::pow(10.0, exponent(random)));
            if (scale != AxisScale::log && round % 2 == 0) low = -low;
            const ValueAxis axis = axis_of(scale, low, high, std::max(high, -low) * 1e-3);
            REQUIRE(axis.share(low) == Approx(0).margin(1e-9));
            REQUIRE(axis.share(high) == Approx(1));
            const double a = share(random), b = share(random);
            REQUIRE(axis.share(axis.at_share(a)) == Approx(a).margin(1e-6));
            if (std::fabs(a - b) > 1e-6) REQUIRE((axis.at_share(a) < axis.at_share(b)) == (a < b));
            // A pixel is as much as the axis says, measured against the places themselves.
            const double value = axis.at_share(0.4);
            const double step = axis.per_pixel(value, 4000);
            REQUIRE(axis.share(value + step) - axis.share(value) == Approx(1.0 / 4000).epsilon(0.05));
        }
    }
}

TEST_CASE("log has no place for 0 and below, the other axes have one for every number", "[plot][SG11]") {
    const ValueAxis log = axis_of(AxisScale::log, 0.01, 10), symlog = axis_of(AxisScale::symlog, -1, 10);
    for (const double value : {0.0, -0.0, -3.0}) {
        CHECK_FALSE(log.has_place(value));
        CHECK(log.share(value) < -50); // far below the plot, and a number
        CHECK(symlog.has_place(value));
    }
    CHECK(log.has_place(1e-300));
    CHECK(symlog.share(-0.5) < symlog.share(0));
    for (const AxisScale scale : axis_scales) {
        const ValueAxis axis = axis_of(scale, 1, 2);
        CHECK_FALSE(axis.has_place(std::numeric_limits<double>::infinity()));
        CHECK_FALSE(axis.has_place(std::numeric_limits<double>::quiet_NaN()));
    }
    CHECK(std::isnan(log.forward(std::numeric_limits<double>::quiet_NaN()))); // lifts the pen of a line
    CHECK(can_be_logarithmic(signals()[*signal_id("mc_variance")]));
    CHECK_FALSE(can_be_logarithmic(signals()[*signal_id("logprob")]));
}

TEST_CASE("an automatic logarithmic range holds every value above 0 and every near threshold",
          "[plot][SG11]") {
    std::mt19937 random(test::seed(41));
    std::uniform_real_distribution<float> exponent(-8, 3);
    for (int round = 0; round < 300; ++round) {
        std::vector<float> values(1 + random() % 20);
        for (float& value : values)
            value = random() % 5 == 0 ? -value * static_cast<float>(random() % 2)
                                      : std::pow(10.0F, exponent(random));
        values.push_back(0.5F);
        const std::vector<double> thresholds{0.3, -2.0, 0.0};
        ValueAxis axis;
        fit_axis(axis, AxisScale::log, summary_of(values), thresholds, usual);
        REQUIRE(axis.min > 0);
        REQUIRE(axis.max > axis.min);
        double smallest = open_end, largest = 0;
        for (const float value : values) {
            if (!(value > 0)) continue;
            smallest = std::min(smallest, static_cast<double>(value));
            largest = std::max(largest, static_cast<double>(value));
            REQUIRE(axis.min <= static_cast<double>(value));
            REQUIRE(axis.max >= static_cast<double>(value));
        }
        if (smallest <= 0.3 && largest >= 0.3) REQUIRE((axis.min <= 0.3 && axis.max >= 0.3));
        // Not more than a decade and a bit of room.
        REQUIRE(axis.min >= std::min(smallest, 0.3) / 12);
        REQUIRE(axis.max <= std::max(largest, 0.3) * 12);
    }
    // Nothing above 0: still an axis. A far threshold stays outside; one value alone has room about it.
    ValueAxis axis;
    fit_axis(axis, AxisScale::log, summary_of({0, -1}), {}, usual);
    CHECK((axis.min > 0 && axis.max >= 12));
    const std::vector<double> far{1e9};
    fit_axis(axis, AxisScale::log, summary_of({1, 10}), far, usual);
    CHECK(axis.max < 100);
    for (const double near : {0.3, 25.0}) { // on either side of the values
        fit_axis(axis, AxisScale::log, summary_of({1, 10}), std::vector<double>{near}, usual);
        CHECK((axis.min <= near && axis.max >= near));
    }
    fit_axis(axis, AxisScale::log, summary_of({3}), {}, usual);
    CHECK((axis.min < 3 && axis.max > 3));
    // One forgotten denormal does not flatten everything else.
    fit_axis(axis, AxisScale::log, summary_of({1e-40F, 1}), {}, usual);
    CHECK(axis.min >= 1e-13);
}

TEST_CASE("labels of an axis stay apart, are no more than asked for, and are in its range", "[plot][SG11]") {
    std::mt19937 random(test::seed(42));
    std::uniform_real_distribution<double> exponent(-6, 6);
    for (int round = 0; round < 400; ++round) {
        const auto scale = axis_scales[static_cast<size_t>(round) % 3];
        double low = std::pow(10.0, exponent(random)), high = low * (1 + std::pow(10.0, exponent(random)));
        if (scale != AxisScale::log && random() % 2 == 0) low = -low;
        const ValueAxis axis = axis_of(scale, low, high, std::max(high, -low) * 1e-3);
        const int at_most = 2 + static_cast<int>(random() % 8);
        const auto ticks = axis_ticks(axis, at_most);
        REQUIRE(std::ranges::is_sorted(ticks));
        REQUIRE(ticks.size() <= static_cast<size_t>(at_most) + 1);
        for (size_t i = 0; i < ticks.size(); ++i) {
            REQUIRE(axis.share(ticks[i]) >= -1e-6);
            REQUIRE(axis.share(ticks[i]) <= 1 + 1e-6);
        }
    }
    CHECK(axis_ticks(axis_of(AxisScale::log, 0.01, 100), 6) == std::vector<double>{0.01, 0.1, 1, 10, 100});
    const auto symlog = axis_ticks(axis_of(AxisScale::symlog, -10, 10, 0.01), 9);
    CHECK(std::ranges::count(symlog, 0.0) == 1);
    CHECK((std::ranges::count(symlog, 10.0) == 1 && std::ranges::count(symlog, -10.0) == 1));
}

TEST_CASE("the top of every axis is labelled, and no two labels touch", "[plot][SG10]") {
    std::mt19937 random(test::seed(45));
    std::uniform_real_distribution<double> exponent(-6, 6), any(-1, 1);
    for (int round = 0; round < 600; ++round) {
        const auto scale = axis_scales[static_cast<size_t>(round) % 3];
        double low = std::pow(10.0, exponent(random));
        const double high = low * (1 + std::pow(10.0, exponent(random) / 2));
        if (scale != AxisScale::log) low *= any(random);
        const ValueAxis axis = axis_of(scale, low, high, std::max(high, std::fabs(low)) * 1e-3);
        const int at_most = 2 + static_cast<int>(random() % 8);
        const auto ticks = labelled_ticks(axis, at_most);
        CAPTURE(low, high, at_most, ticks);
        REQUIRE(!ticks.empty());
        REQUIRE(axis.share(ticks.back()) >= 0.88);
        REQUIRE(axis.share(ticks.back()) <= 1 + 1e-6);
        REQUIRE(ticks.size() <= static_cast<size_t>(at_most) + 1);
        REQUIRE(std::ranges::is_sorted(ticks));
        if (ticks == axis_ticks(axis, at_most)) continue;
        // One that was added keeps its distance from the others.
        for (size_t i = 0; i + 1 < ticks.size(); ++i)
            REQUIRE(axis.share(ticks.back()) - axis.share(ticks[i]) >= 1 / (at_most + 0.5) - 1e-9);
    }
    // Round where the range is round; a ceiling of 1 with a little room above it is the top already.
    CHECK(labelled_ticks(axis_of(AxisScale::linear, 0, 6), 2) == std::vector<double>{0, 6});
    CHECK(labelled_ticks(axis_of(AxisScale::linear, 0, 1.04), 2) == std::vector<double>{0, 1});
    CHECK(labelled_ticks(axis_of(AxisScale::linear, 4.1, 5.2837), 3).back() == 5.28);
}

TEST_CASE("a curve along the natural floor of its signal runs inside the frame", "[plot][SG10]") {
    for (const AxisScale scale : {AxisScale::linear, AxisScale::symlog}) {
        ValueAxis axis;
        fit_axis(axis, scale, summary_of({0, 0, 3}), {}, usual);
        REQUIRE(axis.min == usual.min);
        const double top = axis.max;
        clear_floor(axis, usual, 0.05);
        CHECK(axis.share(usual.min) > 0.04);
        CHECK(axis.share(usual.min) < 0.06);
        CHECK(axis.max == top);
        // The edge itself is no floor any more: a second time changes nothing.
        const double low = axis.min;
        clear_floor(axis, usual, 0.05);
        CHECK(axis.min == low);
    }
    ValueAxis above;
    fit_axis(above, AxisScale::linear, summary_of({7, 7.1F}), {}, usual);
    const ValueAxis before = above;
    clear_floor(above, usual, 0.05);
    CHECK(above.min == before.min);
    ValueAxis log;
    fit_axis(log, AxisScale::log, summary_of({1, 10}), {}, {1, 10});
    const double low = log.min;
    clear_floor(log, {low, 10}, 0.05);
    CHECK(log.min == low);
}

TEST_CASE("the top of an axis of counts is round and above every count", "[plot][SG12]") {
    for (const int64_t most : {0, 1, 3, 7, 12, 99, 100, 101, 12345, 999999}) {
        const auto largest = static_cast<double>(most);
        CAPTURE(most);
        CHECK(count_top(largest, false) > largest);
        CHECK(count_top(largest, false) <= std::max(2.0, 1.7 * largest));
        CHECK(count_top(largest, true) >= std::max(10.0, 1.2 * largest));
        CHECK(count_top(largest, true) <= std::max(10.0, 3.1 * largest));
    }
}

TEST_CASE("a line without a place leaves the plot downward and is marked; the values above 0 are untouched",
          "[plot][SG11][SG8]") {
    SignalSeries series;
    for (const float value : {1.0F, 0.0F, 4.0F, absent(), 0.0F, absent(), 2.0F, 8.0F, -1.0F, 3.0F})
        series.append(value);
    PlotPath raw, clipped;
    decimate(series, 0, 11, 400, raw);
    clipped = raw;
    clip_to_axis(axis_of(AxisScale::linear, 0, 10), clipped);
    CHECK(clipped.below_x.empty()); // they all have one there
    const ValueAxis log = axis_of(AxisScale::log, 0.1, 10);
    clip_to_axis(log, clipped);
    std::vector<double> below = clipped.below_x;
    std::ranges::sort(below);
    CHECK(below == std::vector<double>{2, 5, 9});
    REQUIRE(clipped.x == raw.x);
    for (size_t i = 0; i < raw.y.size(); ++i) {
        if (std::isnan(raw.y[i])) continue;
        CHECK((raw.y[i] > 0 ? clipped.y[i] == raw.y[i] : log.share(clipped.y[i]) < -0.1));
    }
    CHECK(series.at(2) == 0.0F); // what hover reads
    std::vector<double> low{0.5, -0.2, std::numeric_limits<double>::quiet_NaN()};
    clip_to_axis(log, low);
    CHECK((low[0] == 0.5 && low[1] > 0 && low[1] < 0.1 && std::isnan(low[2])));
}

TEST_CASE("a dragged threshold is round, within two pixels of the mouse, and within its limits",
          "[plot][SG11]") {
    std::mt19937 random(test::seed(43));
    std::uniform_real_distribution<double> share(0.02, 0.98);
    const std::pair<AxisScale, ValueRange> axes[] = {
        {AxisScale::linear, {0, 12}}, {AxisScale::log, {1e-4, 20}}, {AxisScale::symlog, {-3, 40}}};
    for (const auto& [scale, range] : axes) {
        const ValueAxis axis = axis_of(scale, range.min, range.max, 0.01);
        for (int round = 0; round < 200; ++round) {
            const double wanted = axis.at_share(share(random));
            const double value = dragged_value(axis, wanted, 150, {-open_end, open_end}, false);
            REQUIRE(std::fabs(axis.share(value) - axis.share(wanted)) <= 2.0 / 150);
            REQUIRE(axis.has_place(value));
        }
        CHECK(dragged_value(axis, 1e9, 150, {0, 8}, false) == Approx(8));
        CHECK(dragged_value(axis, -1e9, 150, {2, 8}, false) == Approx(2));
        const double whole = dragged_value(axis, 3.4, 150, {1, 100}, true);
        CHECK(whole == std::round(whole));
    }
    ValueAxis axis = axis_of(AxisScale::log, 0.1, 10);
    axis.widen(0.5, 0);
    CHECK(axis.min == Approx(0.01));
    CHECK(axis.max == 10);
}

TEST_CASE("steps in sight are those that the plots show, and only those of the run", "[plot][EX4]") {
    TimeView view;
    view.x_min = 9.5;
    view.x_max = 31.2;
    CHECK(steps_in_sight(view, 100) == StepRange{10, 31});
    CHECK(steps_in_sight(view, 20) == StepRange{10, 20});
    CHECK(steps_in_sight(view, 9).count() == 0);
    view.x_min = -4;
    CHECK(steps_in_sight(view, 100) == StepRange{1, 31});
    CHECK(steps_in_sight(view, 0).count() == 0);
    view.x_max = -1;
    CHECK(steps_in_sight(view, 100).count() == 0);
}

TEST_CASE("the axes of signals come back from the settings, and nonsense does not", "[plot][SG11]") {
    SignalPlots plots = first_signal_plots();
    CHECK(plotted_signals(plots, signals()).size() == 3);
    CHECK(changed_axes(plots).empty());
    plots.choose("mc_variance").scale = AxisScale::log;
    plots.choose("logprob").scale = AxisScale::symlog;
    const auto stored = changed_axes(plots);
    CHECK(stored.size() == 2);
    SignalPlots back;
    set_axes(back, stored);
    CHECK(changed_axes(back) == stored);
    set_axes(back, {{"logprob", "log"}, {"No such", "log"}, {"kl_nats", "cubic"}});
    CHECK(changed_axes(back).empty());
    // A run may publish it later.
    set_axes(back, {{"kept_positions", "log"}});
    CHECK(back.of("kept_positions").scale == AxisScale::log);
}

TEST_CASE("what plots show of the layers comes back from the settings, and nonsense does not",
          "[plot][settings]") {
    SignalPlots plots;
    plots.choose("attention_entropy_bits").layers = {.reduction = Reduction::layer, .layer = 3};
    plots.choose("kept_positions").layers = {.strip = true};
    plots.choose("drift").layers = {.reduction = Reduction::max};
    plots.choose("entropy_bits").shown = true;
    const auto stored = changed_layers(plots);
    CHECK(stored == std::map<std::string, std::string>{{"attention_entropy_bits", "layer 3"},
                                                       {"kept_positions", "strip"},
                                                       {"drift", "max"}});
    SignalPlots back;
    set_layers(back, stored);
    CHECK(changed_layers(back) == stored);
    set_layers(back, {{"drift", "layer -1"},
                      {"kl_nats", "layer 3x"},
                      {"No such", "max"},
                      {"logprob", "layer"},
                      {"top1_prob", "median"}});
    CHECK(changed_layers(back).empty());
}

TEST_CASE("a signal has its axis on the right of another's plot, or a plot of its own", "[plot][SG11]") {
    const auto id = [](const char* name) { return *signal_id(name); };
    const auto pairs = [](const SignalPlots& plots) { return plot_pairs(plots, signals()); };
    SignalPlots plots = first_signal_plots();
    const size_t entropy = id("entropy_bits"), kl = id("kl_nats"), variance = id("mc_variance");
    put_beside(plots, "kl_nats", "entropy_bits");
    CHECK(pairs(plots) == std::vector<PlotPair>{{entropy, kl}, {variance, {}}});
    // One at a time: the next takes its place.
    put_beside(plots, "mc_variance", "entropy_bits");
    CHECK(pairs(plots) == std::vector<PlotPair>{{entropy, variance}, {kl, {}}});
    // The host goes to the right of another: its guest has its own plot again.
    put_beside(plots, "entropy_bits", "kl_nats");
    CHECK(pairs(plots).size() == 2);
    CHECK(plots.of("mc_variance").beside.empty());
    // To and fro.
    put_beside(plots, "kl_nats", "entropy_bits");
    CHECK(plots.of("entropy_bits").beside.empty());
    put_beside(plots, "kl_nats", "");
    CHECK(pairs(plots).size() == 3);
    put_beside(plots, "kl_nats", "kl_nats");
    CHECK(pairs(plots).size() == 3);
    // Without its host it has a plot of its own, and comes back with it.
    put_beside(plots, "kl_nats", "entropy_bits");
    plots.choose("entropy_bits").shown = false;
    CHECK(pairs(plots) == std::vector<PlotPair>{{kl, {}}, {variance, {}}});
    plots.choose("entropy_bits").shown = true;
    CHECK(pairs(plots).front() == PlotPair{entropy, kl});
    // A strip of layers has no values on an axis.
    SignalPlots strips = parse_plots("entropy_bits+attention_entropy_bits.strip", "--signals");
    CHECK(pairs(strips).size() == 2);
    strips = parse_plots("attention_entropy_bits.strip+entropy_bits", "--signals");
    CHECK(pairs(strips).size() == 2);

    const auto stored = changed_sides(plots);
    CHECK(stored == std::map<std::string, std::string>{{"kl_nats", "entropy_bits"}});
    SignalPlots back = first_signal_plots();
    set_sides(back, {{"mc_variance", "kl_nats"}});
    set_sides(back, stored);
    CHECK(changed_sides(back) == stored);
    set_sides(back, {{"No such", "kl_nats"}, {"kl_nats", "No such"}, {"kl_nats", "kl_nats"}});
    CHECK(changed_sides(back).empty());

    const SignalPlots parsed = parse_plots("logprob,entropy_bits+kl_nats", "--signals");
    CHECK(pairs(parsed).size() == 2);
    CHECK(parsed.of("kl_nats").beside == "entropy_bits");
    const auto refused = [](const char* list) {
        try {
            static_cast<void>(parse_plots(list, "--signals"));
        } catch (const Error& e) {
            return std::string(e.what());
        }
        return std::string("accepted");
    };
    using Catch::Matchers::ContainsSubstring;
    CHECK_THAT(refused("entropy_bits+kl_nats+logprob"), ContainsSubstring("two axes, not more"));
    CHECK_THAT(refused("entropy_bits+"), ContainsSubstring("is no name of a signal"));
    CHECK_THAT(refused("entropy_bits+entropy_bits"), ContainsSubstring("one signal twice"));
}

} // namespace value_axis_test
