#include "engine/base/error.h"
#include "engine/signals/layer_values.h"
#include "tests/support/made_run.h"
#include "tests/support/seed.h"
#include "ui/scene/axes/signal_choice.h"
#include "ui/scene/maps/layer_strip.h"
#include "ui/scene/policy/thresholds.h"
#include "ui/scene/series/layer_pick.h"
#include "ui/scene/series/series_set.h"

#include <catch2/catch_test_macros.hpp>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace layers_test {

using namespace refreshlab;
using namespace refreshlab::ui;

namespace {

constexpr int64_t layers = 3;

std::shared_ptr<Recording> new_recording() {
    RunInfo info = test::made_info(3);
    info.vocab_size = 6;
    info.layers = layers;
    PublishedSignal kept;
    kept.name = "kept_positions";
    kept.label = "Kept positions";
    kept.description = "Positions that the policy keeps.";
    kept.layered = true;
    info.published_signals = {kept};
    return test::made_run(info);
}

size_t entropy_id() {
    return *signal_id("attention_entropy_bits");
}

/// One more step with these values of the layers, none: not measured.
void append(Recording& recording, const std::vector<float>& values) {
    StepRecord r = test::next_record(recording);
    LayerValues of_layers;
    of_layers.set(entropy_id(), values);
    if (!values.empty()) r.signals[entropy_id()] = layer_mean(values);
    recording.append(r, of_layers);
}

std::vector<float> random_layers(std::mt19937& random) {
    if (random() % 5 == 0) return {};
    std::vector<float> values;
    for (int64_t i = 0; i < layers; ++i) {
        const auto kind = random() % 20;
        values.push_back(kind == 0   ? absent()
                         : kind == 1 ? std::numeric_limits<float>::quiet_NaN()
                                     : static_cast<float>(random() % 1000) / 100);
    }
    return values;
}

bool same(float a, float b) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

} // namespace

TEST_CASE("the strip of a layered signal holds each layer's largest value of every column", "[plot][SG15]") {
    std::mt19937 random(test::seed(41));
    const auto recording = new_recording();
    LayerStrip grown; // as a live run is seen: step by step, with the view moving along
    int64_t checked = 0;
    for (int64_t t = 1; t <= 900; ++t) {
        append(*recording, random_layers(random));
        if (random() % 3 != 0) continue;
        const double x_min = static_cast<double>(random() % 200) * (random() % 2 == 0 ? 0 : 1);
        const double x_max = x_min + 5 + static_cast<double>(random() % 900);
        const double width = 40 + static_cast<double>(random() % 400);
        grown.update(recording, entropy_id(), t, x_min, x_max, width);
        REQUIRE(grown.layers() == layers);
        REQUIRE(grown.columns() > 0);
        float lowest = std::numeric_limits<float>::infinity(), highest = -lowest;
        for (int64_t c = 0; c < grown.columns(); ++c) {
            const int64_t first = grown.first_step() + c * grown.steps_per_column();
            for (int64_t layer = 0; layer < layers; ++layer) {
                float most = absent();
                for (int64_t s = first; s < std::min(first + grown.steps_per_column(), t + 1); ++s) {
                    const auto values = recording->layer_values(s, entropy_id());
                    if (values.empty() || is_absent(values[static_cast<size_t>(layer)])) continue;
                    const float v = values[static_cast<size_t>(layer)];
                    if (is_absent(most) || (!std::isnan(most) && (std::isnan(v) || v > most))) most = v;
                }
                REQUIRE(is_absent(most) == is_absent(grown.at(layer, c)));
                REQUIRE(std::isnan(most) == std::isnan(grown.at(layer, c)));
                if (!std::isfinite(most)) continue;
                REQUIRE(grown.at(layer, c) == most);
                lowest = std::min(lowest, most);
                highest = std::max(highest, most);
            }
        }
        REQUIRE(grown.any() == std::isfinite(lowest));
        if (grown.any()) REQUIRE((grown.lowest() == lowest && grown.highest() == highest));
        ++checked;
    }
    CHECK(checked > 200);
    // Nothing new: nothing changes. Another run: nothing of the old one stays.
    const uint64_t revision = grown.revision();
    grown.update(recording, entropy_id(), 900, 1, 900, 300);
    const uint64_t again = grown.revision();
    CHECK(again != revision);
    grown.update(recording, entropy_id(), 900, 1, 900, 300);
    CHECK(grown.revision() == again);
    const auto other = new_recording();
    append(*other, {1, 2, 3});
    grown.update(other, entropy_id(), 1, 0, 100, 300);
    CHECK(grown.columns() == 1);
    CHECK(grown.at(0, 0) == 1);
    CHECK(grown.highest() == 3);
    grown.update(nullptr, entropy_id(), 0, 0, 100, 300);
    CHECK(grown.columns() == 0);
}

TEST_CASE("a layered signal's series follows the number of its layers that is chosen", "[plot][SG15]") {
    std::mt19937 random(test::seed(42));
    const auto recording = new_recording();
    SeriesSet set;
    const LayerPick mean, most{.reduction = Reduction::max}, least{.reduction = Reduction::min},
        second{.reduction = Reduction::layer, .layer = 1}, strip{.strip = true};
    for (int64_t t = 1; t <= 300; ++t) {
        append(*recording, random_layers(random));
        if (random() % 7 != 0 && t != 300) continue;
        set.begin_frame(recording, t);
        for (const LayerPick& pick : {mean, most, least, second, strip}) {
            const SignalSeries& series = set.series(entropy_id(), pick);
            for (int64_t s = 1; s <= t; ++s) {
                const float expected =
                    reduce_layers(recording->layer_values(s, entropy_id()), pick.reduction, pick.layer);
                REQUIRE(same(series.at(s), expected));
                REQUIRE(same(set.value(s, entropy_id(), pick), expected));
            }
        }
    }
}

TEST_CASE("picks of layers have names that are read back", "[plot][SG15]") {
    for (const LayerPick& pick :
         {LayerPick{}, LayerPick{.reduction = Reduction::max}, LayerPick{.reduction = Reduction::min},
          LayerPick{.reduction = Reduction::layer, .layer = 0},
          LayerPick{.reduction = Reduction::layer, .layer = 31}, LayerPick{.strip = true}})
        CHECK(parse_layer_pick(to_string(pick)) == pick);
    CHECK(to_string(LayerPick{.reduction = Reduction::layer, .layer = 3}) == "layer 3");
    for (const char* wrong :
         {"", "layer", "layer ", "layer -1", "layer 3x", "layer 99999999999", "median", "Mean"})
        CHECK(!parse_layer_pick(wrong));
}

TEST_CASE("a plot has the threshold lines of the number that it shows", "[plot][SG15]") {
    const auto line = [](LayerPick pick) {
        ThresholdLine l;
        l.layers = pick;
        return l;
    };
    const LayerPick mean, most{.reduction = Reduction::max},
        second{.reduction = Reduction::layer, .layer = 1}, third{.reduction = Reduction::layer, .layer = 2};
    const std::vector<ThresholdLine> all = {line(mean), line(most), line(second), line(third)};
    for (const LayerPick& pick : {mean, most, second, third}) {
        const auto here = lines_of_pick(all, pick);
        REQUIRE(here.size() == 1);
        CHECK(here[0].layers == pick);
    }
    CHECK(lines_of_pick(all, LayerPick{.reduction = Reduction::min}).empty());
    CHECK(lines_of_pick(all, LayerPick{.strip = true}).empty());

    // A new trigger compares what the plot shows.
    const Signal& signal = signals()[entropy_id()];
    const Trigger trigger = default_trigger(signal, second);
    CHECK(trigger.signal == signal.name);
    CHECK(trigger.reduce == Reduction::layer);
    CHECK(trigger.layer == 1);
    CHECK(trigger.threshold == signal.default_threshold);
    CHECK(default_trigger(signal, LayerPick{.strip = true}).reduce == Reduction::mean);
}

TEST_CASE("published signals of a run are plotted and exported by name", "[plot][SG15]") {
    const auto recording = new_recording();
    const size_t kept = published_id(0), entropy = *signal_id("entropy_bits");
    SignalPlots plots;
    plots.choose("kept_positions") = {.shown = true, .layers = {.strip = true}};
    plots.choose("entropy_bits").shown = true;
    plots.choose("attention_entropy_bits") = {.shown = true,
                                              .layers = {.reduction = Reduction::layer, .layer = 2}};
    plots.choose("of_another_run").shown = true;
    CHECK(plotted_signals(plots, recording->signals()) == std::vector<size_t>{entropy, entropy_id(), kept});
    // The table of a run that publishes nothing: the choice is kept, and shows nothing.
    CHECK(plotted_signals(plots, signals()) == std::vector<size_t>{entropy, entropy_id()});
    std::vector<PlottedSignal> expected = {{entropy}, {entropy_id(), Reduction::layer, 2}};
    for (int32_t layer = 0; layer < layers; ++layer)
        expected.push_back({kept, Reduction::layer, layer}); // a strip is every layer
    CHECK(plotted_columns(plots, *recording) == expected);
    // A layer that this model does not have is the last one, as in the plot.
    plots.choose("attention_entropy_bits").layers.layer = 40;
    CHECK(plotted_columns(plots, *recording)[1].layer == layers - 1);
}

TEST_CASE("plots are named on a command line with what they show of the layers", "[plot][SG15]") {
    const SignalPlots plots =
        parse_plots("entropy_bits,attention_entropy_bits.strip,kept_positions.layer3,drift", "--signals");
    CHECK(shown_signals(plots) ==
          std::vector<std::string>{"attention_entropy_bits", "drift", "entropy_bits", "kept_positions"});
    CHECK(plots.of("attention_entropy_bits").layers.strip);
    CHECK(plots.of("kept_positions").layers == LayerPick{.reduction = Reduction::layer, .layer = 3});
    CHECK(parse_plots("attention_entropy_bits.mean", "--signals").of("attention_entropy_bits").layers ==
          LayerPick());
    for (const char* wrong :
         {"", ",", "Entropy", "entropy_bits.max", "attention_entropy_bits.", "attention_entropy_bits.median",
          "attention_entropy_bits.layer", "entropy_bits,,kl_nats", "entropy_bits, kl_nats"}) {
        CAPTURE(wrong);
        CHECK_THROWS_AS(parse_plots(wrong, "--signals"), Error);
    }
    SignalPlots back = first_signal_plots();
    set_shown(back, shown_signals(plots));
    CHECK(shown_signals(back) == shown_signals(plots));
    set_shown(back, std::vector<std::string>{"No such"});
    CHECK(shown_signals(back).empty());
}

} // namespace layers_test
