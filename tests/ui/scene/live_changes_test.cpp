#include "engine/control/command.h"
#include "engine/refresh/policy.h"
#include "tests/ui/maps/heatmap_recording.h"
#include "ui/scene/policy/command_words.h"
#include "ui/scene/policy/live_changes.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

namespace live_changes_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;

namespace {

std::shared_ptr<Recording> entropy_run(int64_t steps) {
    RunInfo info = empty_recording(Mode::overfill, 4)->info();
    info.config.policy = preset_policy("entropy");
    info.config.policy.triggers.at(0).threshold = 6;
    const auto recording = made_run(info);
    for (int64_t t = 1; t <= steps; ++t)
        append_step(*recording);
    return recording;
}

void command_at(Recording& recording, int64_t step, const Command& command) {
    recording.add_command({step, to_json(command).dump()});
}

} // namespace

TEST_CASE("a threshold's stair is what it was when each step ran", "[ui][policy][SG16]") {
    const auto recording = entropy_run(100);
    LiveChanges changes;
    changes.update(*recording);
    using Spans = std::vector<ThresholdSpan>;
    ThresholdStair kept; // from one question to the next: the same as made anew
    const auto stair = [&](int64_t steps) {
        const auto spans = kept.of(changes, steps, "entropy_bits", {});
        CHECK(Spans(spans.begin(), spans.end()) == threshold_stair(changes, steps, "entropy_bits", {}));
        return Spans(spans.begin(), spans.end());
    };
    CHECK(stair(100) == Spans{{1, 100, 6}});
    CHECK(stair(0).empty());

    command_at(*recording, 11, command::SetParameter{"entropy.threshold", "5"});
    command_at(*recording, 11, command::SetParameter{"entropy.threshold", "4"}); // the last of a step counts
    command_at(*recording, 31, command::SetParameter{"sampler.temperature", "0.5"});
    command_at(*recording, 41, command::SetParameter{"entropy.enabled", "false"});
    command_at(*recording, 61, command::SetParameter{"entropy.enabled", "true"});
    changes.update(*recording);
    CHECK(stair(100) == Spans{{1, 10, 6}, {11, 40, 4}, {61, 100, 4}});
    for (int64_t step = 1; step <= 100; ++step)
        static_cast<void>(stair(step));                 // as a run goes on
    CHECK(stair(20) == Spans{{1, 10, 6}, {11, 20, 4}}); // of a run that was there so far
    CHECK(threshold_stair(changes, 100, "kl_nats", {}).empty());

    // Another policy as a whole: without this trigger, then with it again.
    command_at(*recording, 71, command::SetPolicy{preset_policy("none")});
    RefreshPolicy back = preset_policy("entropy");
    back.triggers.at(0).threshold = 3;
    command_at(*recording, 81, command::SetPolicy{back});
    command_at(*recording, 101,
               command::SetParameter{"entropy.threshold", "9"}); // of a step that has not run
    changes.update(*recording);
    CHECK(stair(100) == Spans{{1, 10, 6}, {11, 40, 4}, {61, 70, 4}, {81, 100, 3}});
    CHECK(changes.policy_at(10).triggers.at(0).threshold == 6);
    CHECK(changes.policy_at(11).triggers.at(0).threshold == 4);
    CHECK(changes.policy_at(75).triggers.empty());
    CHECK(changes.all().size() == 8);
    CHECK(changes.all()[0].step == 11);
    CHECK(changes.all()[0].words == "Entropy threshold: 5 bits");

    // A command that this version does not know changes nothing, and is told as it stands.
    recording->add_command({101, "{\"of\": \"tomorrow\"}"});
    changes.update(*recording);
    CHECK(changes.all().back().words == "{\"of\": \"tomorrow\"}");
    CHECK(stair(100).size() == 4);

    const auto other = entropy_run(5);
    changes.update(*other);
    CHECK(changes.all().empty());
    CHECK(stair(5) == Spans{{1, 5, 6}});
}

TEST_CASE("commands that set a parameter tell which", "[ui]") {
    const auto event = [](const Command& command) { return CommandEvent{3, to_json(command).dump()}; };
    CHECK(set_key(event(command::SetParameter{"entropy.threshold", "5"})) == "entropy.threshold");
    CHECK(set_key(event(command::RefreshNow{})).empty());
    CHECK(set_key({3, "not json"}).empty());
    CHECK(command_words(event(command::SetParameter{"budget.refreshes", "none"})).find("none") !=
          std::string::npos);
}

} // namespace live_changes_test
