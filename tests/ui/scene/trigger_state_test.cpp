#include "tests/ui/maps/heatmap_recording.h"
#include "ui/scene/policy/empty_hint.h"
#include "ui/scene/policy/trigger_state.h"

#include <catch2/catch_test_macros.hpp>

namespace trigger_state_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;

namespace {

std::shared_ptr<Recording> run_with_refreshes(int64_t steps, std::initializer_list<int64_t> at,
                                              bool automatic = true) {
    auto recording = empty_recording(Mode::overfill, 4);
    for (int64_t step = 0; step < steps; ++step)
        append_step(*recording);
    for (const int64_t step : at) {
        RefreshEvent event;
        event.step = event.fired_step = step;
        event.automatic = automatic;
        recording->add_refresh(event);
    }
    return recording;
}

Trigger trigger(std::string signal, int32_t cooldown, bool enabled = true) {
    Trigger t;
    t.signal = std::move(signal);
    t.cooldown = cooldown;
    t.enabled = enabled;
    return t;
}

std::string key_of(const EmptyHint& hint) {
    return hint.key ? hint.key : "";
}

} // namespace

TEST_CASE("a trigger is armed, off, cooling down, or out of budget", "[ui][policy]") {
    RefreshPolicy policy;
    policy.triggers = {trigger("entropy_bits", 32), trigger("kl_nats", 0), trigger("mc_variance", 32, false)};
    RunState run = RunState::running;
    const auto texts = [&](const Recording* recording, int64_t steps) {
        std::string all;
        for (const TriggerState& state : trigger_states(recording, steps, policy, run)) {
            CHECK(state.armed == (state.text == "armed"));
            all += state.text + "|";
        }
        return all;
    };
    CHECK(texts(nullptr, 0) == "armed|armed|off|");
    const auto recording = run_with_refreshes(40, {10, 20});
    CHECK(texts(recording.get(), 40) == "cools down, 11 left|armed|off|"); // boundary 41; until 52
    CHECK(texts(recording.get(), 51) == "armed|armed|off|");
    // Nothing is armed where nothing goes on.
    run = RunState::paused;
    CHECK(texts(recording.get(), 40) == "cools down, 11 left|paused|off|");
    run = RunState::ended;
    CHECK(texts(recording.get(), 40) == "run ended|run ended|off|");
    run = RunState::none;
    CHECK(texts(nullptr, 0) == "no run|no run|off|");
    run = RunState::running;
    CHECK(run_state(EngineState::running, true) == RunState::running);
    CHECK(run_state(EngineState::running, false) == RunState::ended); // a file is shown
    CHECK(run_state(EngineState::failed, true) == RunState::ended);
    CHECK(run_state(EngineState::idle, true) == RunState::none);

    policy.budget.refreshes = 2;
    policy.budget.per_tokens = 100;
    CHECK(texts(recording.get(), 40) == "budget used up|budget used up|off|");
    CHECK(texts(recording.get(), 109) == "armed|armed|off|"); // the first one is 100 tokens old
    const auto by_hand = run_with_refreshes(40, {10, 20}, false);
    CHECK(used_budget(*by_hand, 40, policy.budget) == 0); // those by hand are free
    CHECK(used_budget(*recording, 40, policy.budget) == 2);
    CHECK(used_budget(*recording, 110, policy.budget) == 1);
    policy.budget.refreshes = 0;
    CHECK(texts(nullptr, 0) == "budget used up|budget used up|off|");
}

TEST_CASE("what a trigger costs, in words", "[ui][policy]") {
    Trigger entropy = trigger("entropy_bits", 0), kl = trigger("kl_nats", 0), mc = trigger("mc_variance", 0);
    kl.every = 64;
    mc.every = 16;
    CHECK(trigger_cost(entropy, &signals()[*signal_id(entropy.signal)], 8, true) == "free until it fires");
    CHECK(trigger_cost(kl, &signals()[*signal_id(kl.signal)], 8, true) == "one teacher pass every 64 tokens");
    CHECK(trigger_cost(mc, &signals()[*signal_id(mc.signal)], 8, false) == "8 extra rows every 16 tokens");
    CHECK(trigger_cost(mc, &signals()[*signal_id(mc.signal)], 8, true) ==
          "8 extra rows every 16 tokens; uncalibrated");
    CHECK(trigger_cost(trigger("no_such_signal", 0), nullptr, 8, true).empty());
}

TEST_CASE("a plot without a value says why, and offers the switch that would bring some", "[ui][policy]") {
    const Signal &kl = signals()[*signal_id("kl_nats")], &mc = signals()[*signal_id("mc_variance")],
                 &entropy = signals()[*signal_id("entropy_bits")],
                 &attention = signals()[*signal_id("attention_entropy_bits")];
    const auto recording = run_with_refreshes(4, {});
    EngineStatus status;
    Drafts drafts;
    drafts.begin_frame(status);
    CHECK(key_of(empty_hint(kl, recording.get(), true, Mode::overfill, drafts)) == "shadow");
    CHECK(key_of(empty_hint(kl, recording.get(), true, Mode::student, drafts)).empty());
    CHECK(key_of(empty_hint(mc, recording.get(), true, Mode::overfill, drafts)) == "mc.measure");
    CHECK(key_of(empty_hint(attention, recording.get(), true, Mode::student, drafts)) ==
          "capture.attention_entropy");
    CHECK(empty_hint(entropy, nullptr, true, Mode::overfill, drafts).why == "No value yet");
    // Of a file: nothing that is switched now changes it.
    CHECK(empty_hint(kl, recording.get(), false, Mode::overfill, drafts).why == "Not measured in this run");
    status.applied.shadow = status.applied.mc.measure = status.applied.capture.attention_entropy = true;
    drafts.begin_frame(status);
    CHECK(key_of(empty_hint(kl, recording.get(), true, Mode::overfill, drafts)).empty());
    CHECK(key_of(empty_hint(mc, recording.get(), true, Mode::overfill, drafts)).empty());
    CHECK(key_of(empty_hint(attention, recording.get(), true, Mode::overfill, drafts)).empty());
    recording->set_end({});
    CHECK(empty_hint(entropy, recording.get(), true, Mode::overfill, drafts).why ==
          "The run ended before there was a value");
}

} // namespace trigger_state_test
