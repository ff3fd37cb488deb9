// Triggers on layered signals and on those that a component of the run publishes.
#include "engine/base/error.h"
#include "engine/refresh/calibrate.h"
#include "engine/refresh/planner.h"
#include "engine/refresh/policy.h"
#include "engine/refresh/what_if.h"
#include "engine/signals/published.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <random>

namespace reduction_test {

using namespace refreshlab;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

constexpr auto layered = "attention_entropy_bits";
constexpr int64_t num_layers = 4;

json policy_json(const json& trigger) {
    return {{"when", {{"any", json::array({trigger})}}}};
}

std::string error_of(const json& trigger) {
    try {
        (void)policy_from_json(policy_json(trigger), "gate.json");
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::bad_input);
        const std::string text = error.what();
        CHECK(text.find('\n') == std::string::npos);
        CHECK_THAT(text, ContainsSubstring("gate.json"));
        return text;
    }
    return {};
}

Trigger on(std::string signal, Reduction reduce, int32_t layer = 0) {
    Trigger trigger;
    trigger.signal = std::move(signal);
    trigger.threshold = 3;
    trigger.reduce = reduce;
    trigger.layer = layer;
    return trigger;
}

RefreshPolicy with(Trigger trigger) {
    RefreshPolicy policy;
    policy.name = "reduced";
    policy.triggers = {std::move(trigger)};
    return policy;
}

std::string start_error(const RefreshPolicy& policy, std::span<const Signal> table, int64_t layers) {
    try {
        check_run_policy(policy, table, layers, "this run");
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::bad_input);
        CHECK_THAT(error.what(), ContainsSubstring("this run"));
        CHECK(std::string(error.what()).find('\n') == std::string::npos);
        return error.what();
    }
    return {};
}

std::vector<PublishedSignal> published() {
    PublishedSignal kept;
    kept.name = "kept_positions";
    kept.label = "Kept positions";
    kept.description = "Positions that are kept.";
    kept.layered = true;
    kept.letter = 'Q';
    PublishedSignal silent = kept;
    silent.name = "kept_bytes";
    silent.letter = 0;
    silent.layered = false;
    return {kept, silent};
}

/// A run whose layered signal `id` has these values at each step; the mean stands in its scalar slot.
RecordedRun run_of(size_t id, const std::vector<std::vector<float>>& layers,
                   std::span<const Signal> table = {}) {
    RecordedRun run;
    run.steps = std::ssize(layers);
    run.table = table;
    run.signal = [id, layers](int64_t step, size_t signal) {
        return signal == id ? layer_mean(layers[static_cast<size_t>(step - 1)]) : absent();
    };
    run.layer_values = [id, layers](int64_t step, size_t signal) {
        return signal == id ? std::span(layers[static_cast<size_t>(step - 1)]) : std::span<const float>();
    };
    return run;
}

std::vector<std::vector<float>> random_layers(std::mt19937& random, int64_t steps) {
    std::vector<std::vector<float>> all;
    for (int64_t t = 0; t < steps; ++t) {
        std::vector<float> values;
        for (int64_t layer = 0; layer < num_layers; ++layer) {
            const uint32_t kind = random() % 30;
            values.push_back(kind == 0   ? absent()
                             : kind == 1 ? std::numeric_limits<float>::quiet_NaN()
                                         : static_cast<float>(random() % 600) / 100.0F);
        }
        all.push_back(values);
    }
    return all;
}

} // namespace

TEST_CASE("a trigger's reduction is read, written and kept", "[refresh]") {
    const auto trigger_of = [](const json& extra) {
        json trigger = {{"signal", layered}, {"above", 3.0}};
        trigger.update(extra);
        const RefreshPolicy policy = policy_from_json(policy_json(trigger), "gate.json");
        CHECK(policy_from_json(policy_to_json(policy), "again") == policy);
        return policy.triggers.at(0);
    };
    CHECK(trigger_of(json::object()).reduce == Reduction::mean);
    CHECK(trigger_of({{"reduce", "mean"}}) == trigger_of(json::object()));
    CHECK(trigger_of({{"reduce", "max"}}).reduce == Reduction::max);
    CHECK(trigger_of({{"reduce", "min"}}).reduce == Reduction::min);
    CHECK(trigger_of({{"layer", 3}}).reduce == Reduction::layer);
    CHECK(trigger_of({{"layer", 3}}).layer == 3);
    CHECK(trigger_of({{"layer", 0}}).reduce == Reduction::layer);
    // What needs no layers is written as it ever was.
    const json plain = policy_to_json(with(on("entropy_bits", Reduction::mean)));
    const json& written = plain.at("when").at("any").at(0);
    for (const char* key : {"reduce", "layer", "published"})
        CHECK_FALSE(written.contains(key));
}

TEST_CASE("a reduction that makes no sense is refused in one line", "[refresh]") {
    const json base = {{"signal", layered}, {"above", 3.0}};
    const auto with_keys = [&](const json& extra) {
        json trigger = base;
        trigger.update(extra);
        return error_of(trigger);
    };
    CHECK_THAT(with_keys({{"reduce", "max"}, {"layer", 3}}),
               ContainsSubstring("when.any[0].layer") && ContainsSubstring("one of them"));
    CHECK_THAT(with_keys({{"reduce", "median"}}), ContainsSubstring("when.any[0].reduce"));
    CHECK_THAT(with_keys({{"reduce", "layer"}}), ContainsSubstring("reduce"));
    CHECK_THAT(with_keys({{"layer", -1}}), ContainsSubstring("when.any[0].layer"));
    CHECK_THAT(with_keys({{"layer", 65536}}), ContainsSubstring("layer"));
    CHECK_THAT(with_keys({{"layer", "first"}}), ContainsSubstring("layer"));
    CHECK_THAT(with_keys({{"signal", "entropy_bits"}, {"layer", 2}}),
               ContainsSubstring("entropy_bits has no layers") && ContainsSubstring("layer 2"));
    CHECK_THAT(with_keys({{"signal", "entropy_bits"}, {"reduce", "max"}}),
               ContainsSubstring("entropy_bits has no layers"));
    CHECK(with_keys({{"signal", "entropy_bits"}, {"reduce", "mean"}}).empty()); // says what is so anyway
    RefreshPolicy made = with(on(layered, Reduction::max, 3)); // a layer and no choice of one
    CHECK_THROWS_AS(check_policy(made, "code"), Error);
    made = with(on(layered, Reduction::layer, -1));
    CHECK_THROWS_AS(check_policy(made, "code"), Error);
}

TEST_CASE("a published signal is checked against the run's table when it starts", "[refresh]") {
    const auto list = published();
    const std::vector<Signal> table = signal_table(list);
    const auto read = [](const json& trigger) { return policy_from_json(policy_json(trigger), "gate.json"); };
    const RefreshPolicy good =
        read({{"signal", "kept_positions"}, {"published", true}, {"reduce", "min"}, {"below", 64}});
    CHECK(policy_from_json(policy_to_json(good), "again") == good);
    CHECK(start_error(good, table, num_layers).empty());
    CHECK_THAT(start_error(good, signals(), num_layers),
               ContainsSubstring("no component of this run publishes signal kept_positions"));
    const RefreshPolicy misspelt = read({{"signal", "kept_position"}, {"published", true}, {"below", 64}});
    CHECK_THAT(start_error(misspelt, table, num_layers), ContainsSubstring("did you mean kept_positions"));
    const RefreshPolicy silent = read({{"signal", "kept_bytes"}, {"published", true}, {"below", 64}});
    CHECK_THAT(start_error(silent, table, num_layers), ContainsSubstring("cannot trigger"));
    PublishedSignal flat = list[0];
    flat.layered = false;
    const std::vector<PublishedSignal> flat_list = {flat};
    CHECK_THAT(start_error(good, signal_table(flat_list), num_layers), ContainsSubstring("has no layers"));
    // Without the word a name that nobody knows stays a mistake, and the registry's names need no word.
    CHECK_THAT(error_of({{"signal", "kept_positions"}, {"below", 64}}), ContainsSubstring("unknown signal"));
    CHECK_THAT(error_of({{"signal", "entropy_bits"}, {"published", true}, {"above", 6}}),
               ContainsSubstring("is a signal of every run"));
    CHECK_THAT(error_of({{"signal", "no name"}, {"published", true}, {"above", 6}}),
               ContainsSubstring("not the name of a signal"));
}

TEST_CASE("a layer outside the model is refused when the run starts", "[refresh]") {
    const RefreshPolicy policy = with(on(layered, Reduction::layer, 3));
    CHECK(start_error(policy, signals(), 4).empty());
    CHECK_THAT(start_error(policy, signals(), 3),
               ContainsSubstring("layer 3 of attention_entropy_bits") && ContainsSubstring("layers 0 to 2"));
    CHECK(start_error(with(on(layered, Reduction::max)), signals(), 1).empty());
}

TEST_CASE("the planner compares what the trigger's reduction makes of the layers", "[refresh]") {
    const size_t id = *signal_id(layered);
    std::vector<float> values(signals().size(), absent());
    LayerValues layers;
    const std::vector<float> of_step = {1, 2, 6, 1};
    layers.set(id, of_step);
    values[id] = layer_mean(of_step); // 2.5
    Boundary boundary;
    boundary.step = boundary.tokens_since_splice = boundary.tokens_since_pass = 10;
    boundary.signals = values;
    boundary.layers = &layers;
    const auto decided = [&](Reduction reduce, int32_t layer = 0) {
        return decide(with(on(layered, reduce, layer)), boundary); // above 3
    };
    CHECK(decided(Reduction::mean).kind == Decision::Kind::none);
    CHECK(decided(Reduction::min).kind == Decision::Kind::none);
    CHECK(decided(Reduction::layer, 1).kind == Decision::Kind::none);
    const Decision max = decided(Reduction::max);
    REQUIRE(max.kind == Decision::Kind::refresh);
    REQUIRE(max.hits.size() == 1);
    CHECK(max.hits[0].value == 6.0);
    CHECK(max.hits[0].signal == layered);
    CHECK(max.hits[0].reduce == Reduction::max);
    CHECK(reason_text(max.hits) == "attention_entropy_bits.max");
    const Decision layer = decided(Reduction::layer, 2);
    REQUIRE(layer.kind == Decision::Kind::refresh);
    CHECK(layer.hits[0].layer == 2);
    CHECK(reason_text(layer.hits) == "attention_entropy_bits.layer2");
    boundary.layers = nullptr; // not measured: never fires
    CHECK(decided(Reduction::max).kind == Decision::Kind::none);
    values[id] = 4;
    CHECK(decided(Reduction::mean).kind == Decision::Kind::refresh); // the mean stands in its slot
    CHECK(reason_text(decided(Reduction::mean).hits) == layered);
}

TEST_CASE("the planner finds a published signal in the run's table", "[refresh]") {
    const auto list = published();
    const std::vector<Signal> table = signal_table(list);
    std::vector<float> values(max_signals, absent());
    values[published_id(0)] = 5;
    Trigger trigger = on("kept_positions", Reduction::mean);
    trigger.published = true;
    Boundary boundary;
    boundary.step = boundary.tokens_since_splice = boundary.tokens_since_pass = 10;
    boundary.signals = values;
    CHECK(decide(with(trigger), boundary).kind == Decision::Kind::none); // the registry has none of that name
    boundary.table = table;
    const Decision decision = decide(with(trigger), boundary);
    REQUIRE(decision.kind == Decision::Kind::refresh);
    CHECK(decision.hits[0].letter == 'Q');
    CHECK(reason_text(decision.hits) == "kept_positions");
}

TEST_CASE("attention is wanted where an enabled trigger reads it", "[refresh]") {
    Trigger trigger = on(layered, Reduction::max);
    trigger.every = 4;
    RefreshPolicy policy = with(trigger);
    CHECK(wants_attention(policy, 8));
    CHECK_FALSE(wants_attention(policy, 9));
    CHECK_FALSE(wants_mc(policy, 8));
    policy.triggers[0].enabled = false;
    CHECK_FALSE(wants_attention(policy, 8));
    CHECK_FALSE(wants_attention(preset_policy("entropy"), 16));
}

TEST_CASE("the preview fires where the planner would, for every reduction", "[refresh]") {
    const uint32_t seed = test::seed(7);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const size_t id = *signal_id(layered);
    for (int i = 0; i < 60; ++i) {
        const auto layers = random_layers(random, 120);
        Trigger trigger = on(layered, static_cast<Reduction>(random() % 4));
        if (trigger.reduce == Reduction::layer) trigger.layer = static_cast<int32_t>(random() % num_layers);
        trigger.every = 1 + static_cast<int32_t>(random() % 5);
        trigger.cooldown = static_cast<int32_t>(random() % 9);
        // Plainly: one pass over the steps with the definition of the reduction written out.
        std::vector<int64_t> fires;
        int64_t missing = 0;
        std::optional<int64_t> last;
        for (int64_t t = 1; t <= 120; ++t) {
            if (t % trigger.every != 0 || (last && t - *last < trigger.cooldown)) continue;
            std::vector<double> measured;
            const auto& of_step = layers[static_cast<size_t>(t - 1)];
            for (size_t layer = 0; layer < of_step.size(); ++layer) {
                const bool wanted =
                    trigger.reduce != Reduction::layer || static_cast<int32_t>(layer) == trigger.layer;
                if (wanted && !is_absent(of_step[layer]))
                    measured.push_back(static_cast<double>(of_step[layer]));
            }
            if (measured.empty()) {
                ++missing;
                continue;
            }
            if (std::ranges::any_of(measured, [](double v) { return std::isnan(v); })) continue;
            double value = measured[0];
            if (trigger.reduce == Reduction::max) value = *std::ranges::max_element(measured);
            if (trigger.reduce == Reduction::min) value = *std::ranges::min_element(measured);
            if (trigger.reduce == Reduction::mean) {
                value = 0;
                for (const double v : measured)
                    value += v;
                value = static_cast<double>(static_cast<float>(value / static_cast<double>(measured.size())));
            }
            if (!(value > trigger.threshold)) continue;
            fires.push_back(t);
            last = t;
        }
        const WhatIf preview = what_if(with(trigger), run_of(id, layers));
        INFO(policy_to_json(with(trigger)).dump());
        CHECK(preview.fires == fires);
        CHECK(preview.missing == missing);
    }
}

TEST_CASE("the preview of a policy on a signal that this run did not publish misses it everywhere",
          "[refresh]") {
    Trigger trigger = on("kept_positions", Reduction::min);
    trigger.published = true;
    const auto list = published();
    const std::vector<Signal> table = signal_table(list);
    const std::vector<std::vector<float>> layers(10, {5, 9, 7, 8});
    const WhatIf with_it = what_if(with(trigger), run_of(published_id(0), layers, table));
    CHECK(with_it.fires.size() == 10);
    CHECK(with_it.missing == 0);
    const WhatIf without = what_if(with(trigger), run_of(published_id(0), layers));
    CHECK(without.fires.empty());
    CHECK(without.missing == 10);
    CHECK_FALSE(calibrate(with(trigger), 0, 100, run_of(published_id(0), layers)).found);
    CHECK_THAT(calibrate(with(trigger), 0, 100, run_of(published_id(0), layers)).why_not,
               ContainsSubstring("not published"));
}

TEST_CASE("a threshold is calibrated on the reduction that its trigger compares", "[refresh]") {
    const size_t id = *signal_id(layered);
    std::vector<std::vector<float>> layers;
    for (int t = 1; t <= 1000; ++t) // the mean never moves, the largest and layer 1 do
        layers.push_back({static_cast<float>(-t), static_cast<float>(t)});
    const RecordedRun run = run_of(id, layers);
    const auto threshold = [&](Trigger trigger) {
        const CalibrationResult result = calibrate(with(trigger), 0, 100, run);
        REQUIRE(result.found);
        CHECK(result.found->checks == 1000);
        return result.found->threshold;
    };
    CHECK(threshold(on(layered, Reduction::mean)) == 0.0);
    CHECK(threshold(on(layered, Reduction::max)) > 899.0); // 100 of 1000 lie above
    CHECK(threshold(on(layered, Reduction::max)) < 902.0);
    CHECK(threshold(on(layered, Reduction::layer, 1)) == threshold(on(layered, Reduction::max)));
    CHECK(threshold(on(layered, Reduction::layer, 0)) < -99.0);
    CHECK(threshold(on(layered, Reduction::min)) == threshold(on(layered, Reduction::layer, 0)));
}

} // namespace reduction_test
