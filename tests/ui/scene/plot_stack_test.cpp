#include "engine/signals/registry.h"
#include "tests/support/made_run.h"
#include "tests/ui/maps/heatmap_recording.h"
#include "ui/scene/axes/plot_stack.h"
#include "ui/scene/series/series_set.h"
#include "ui/scene/text/signal_reading.h"

#include <catch2/catch_test_macros.hpp>

#include <array>
#include <cmath>
#include <numeric>

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;

TEST_CASE("plots of a stack share its height, those without a value less of it", "[ui][signals]") {
    const float header = 20, em = 16;
    const std::array three = {true, true, true};
    const StackHeights even = stack_heights(three, true, 600, header, em);
    CHECK(even.plots == std::vector<float>{200, 200, 200});
    CHECK(even.lowest == 2);
    const std::array one_empty = {true, false, true};
    const StackHeights uneven = stack_heights(one_empty, true, 652, header, em);
    CHECK(uneven.plots == std::vector<float>{250, 150, 250});
}

TEST_CASE("what the smallest plots need is taken from the others", "[ui][signals]") {
    const float header = 20, em = 16, readable = header + em * 2.8F;
    const std::array one_empty = {true, true, false};
    // By weight the third would get 0.6 / 2.6 of the height, which is too low to read.
    const StackHeights heights = stack_heights(one_empty, true, 3 * readable + 3, header, em);
    CHECK(heights.plots[2] == readable);
    // The others share the rest by their own weights.
    CHECK(heights.plots[0] == std::floor((2 * readable + 3) / 2));
    CHECK(heights.plots[0] == heights.plots[1]);
    CHECK(std::accumulate(heights.plots.begin(), heights.plots.end(), 0.0F) <= 3 * readable + 3);
}

TEST_CASE("where room is short signals without a value fold into their header", "[ui][signals]") {
    const float header = 20, em = 16, least = header + em * 2.2F;
    const std::array last_empty = {true, true, false};
    const StackHeights heights = stack_heights(last_empty, true, 170, header, em);
    CHECK(heights.plots[2] == 0);
    CHECK(heights.lowest == 1);
    CHECK(heights.plots[0] == 75); // (170 - header) / 2
    // A run that has made no step yet folds nothing.
    const StackHeights before = stack_heights(last_empty, false, 170, header, em);
    CHECK(before.plots[2] >= least);
    CHECK(before.lowest == 2);
    const std::array none = {false, false, false};
    CHECK(stack_heights(none, true, 100, header, em).lowest == -1);
    // Never lower than what can be read, even if the stack then needs a scroll bar.
    for (const float height : stack_heights(std::array{true, true, true}, true, 50, header, em).plots)
        CHECK(height == least);
}

TEST_CASE("a plot's header reads the value at a step, the last one before it, or says that there is none",
          "[ui][signals]") {
    const size_t entropy = *signal_id("entropy_bits"), score = *signal_id("task_score"),
                 kl = *signal_id("kl_nats");
    const auto recording = empty_recording(Mode::overfill, 4);
    for (int64_t t = 1; t <= 3; ++t) {
        StepRecord record = next_record(*recording, 4);
        if (t == 1) record.signals[entropy] = 5.25F;
        if (t >= 2) record.signals[score] = t == 2 ? 1.0F : 0.0F;
        recording->append(record);
    }
    SeriesSet series;
    series.begin_frame(recording, 3);
    using Kind = SignalReading::Kind;
    CHECK(signal_reading(series, signals()[entropy], entropy, 1).kind == Kind::value);
    CHECK(signal_reading(series, signals()[entropy], entropy, 1).text == "5.25");
    CHECK(signal_reading(series, signals()[entropy], entropy, 3).kind == Kind::earlier);
    CHECK(signal_reading(series, signals()[entropy], entropy, 3).text == "5.25 at step 1");
    CHECK(signal_reading(series, signals()[kl], kl, 2).kind == Kind::none);
    CHECK(signal_reading(series, signals()[score], score, 1).kind == Kind::neither);
    CHECK(signal_reading(series, signals()[score], score, 2).kind == Kind::yes);
    CHECK(signal_reading(series, signals()[score], score, 3).text == "wrong");

    const SeriesSummary seen = series.seen(entropy, 0.2, 2.7);
    CHECK(seen.finite == 1);
    CHECK(seen.max == 5.25F);
    CHECK(series.seen(entropy, 1.5, 2.7).finite ==
          1); // the step left of the edge is still joined to the line
    CHECK(series.seen(entropy, 2.0, 2.7).finite == 0);
}
