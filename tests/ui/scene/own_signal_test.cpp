// A signal of a person's own as the window writes it: into the policy, and what it would have been on a run.
#include "engine/base/error.h"
#include "engine/signals/registry.h"
#include "tests/support/made_run.h"
#include "tests/support/refused.h"
#include "tests/ui/maps/heatmap_recording.h"
#include "ui/scene/policy/own_signal_draft.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace own_signal_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a signal that is written in the window goes into the policy, in the place of one of its name",
          "[ui][expression]") {
    OwnSignalDraft draft;
    draft.expression = "entropy_bits / 2";
    draft.threshold = 1.5;
    const RefreshPolicy first = with_own_signal(preset_policy("none"), draft);
    CHECK(first.name == "custom");
    REQUIRE(first.signals.size() == 1);
    REQUIRE(first.triggers.size() == 1);
    CHECK(first.triggers[0].published);
    CHECK(first.triggers[0].cooldown == own_signal_cooldown);
    CHECK(first.triggers[0].comparison == Comparison::above);
    // Once more: what a card has set stays.
    RefreshPolicy tuned = first;
    tuned.triggers[0].every = 4;
    tuned.triggers[0].cooldown = 0;
    tuned.triggers[0].enabled = false;
    draft.expression = "lag(entropy_bits, 1)";
    draft.above = false;
    draft.threshold = -2;
    const RefreshPolicy second = with_own_signal(tuned, draft);
    REQUIRE(second.signals.size() == 1);
    CHECK(second.signals[0].expression->text() == "lag(entropy_bits, 1)");
    CHECK(second.triggers == std::vector<Trigger>{{.signal = "rise",
                                                   .comparison = Comparison::below,
                                                   .threshold = -2,
                                                   .every = 4,
                                                   .published = true}});
    draft.triggers = false;
    CHECK(with_own_signal(second, draft).triggers.empty());
    CHECK(with_own_signal(second, draft).signals.size() == 1);
    draft.name = "other";
    draft.triggers = true;
    CHECK(with_own_signal(preset_policy("entropy"), draft).triggers.size() == 2);
    CHECK(with_own_signal(preset_policy("entropy"), draft).name == "entropy");
    draft.name = "Not a name";
    CHECK_THAT(refused([&] { return with_own_signal({}, draft); }),
               ContainsSubstring("not the name of a signal"));
    draft.name = "a";
    draft.expression = "entropy_bits +";
    CHECK_THAT(refused([&] { return with_own_signal({}, draft); }), ContainsSubstring("column 17: "));
}

TEST_CASE("what a signal would have been on a run is counted step by step", "[ui][expression]") {
    const auto recording = empty_recording(Mode::overfill, 4);
    const size_t entropy = *signal_id("entropy_bits");
    for (const float value : {1.0F, 4.0F, absent(), 2.0F, 8.0F}) {
        StepRecord record = next_record(*recording, 1);
        record.signals[entropy] = value;
        recording->append(record);
    }
    OwnSignalDraft draft;
    draft.threshold = 1;
    const OwnSignal half = own_signal_from_text("half = entropy_bits / 2", "the test");
    const auto values = values_on(*recording, 5, half, draft);
    REQUIRE(values.has_value());
    CHECK(values->steps == 4);
    CHECK(values->lowest == 0.5);
    CHECK(values->highest == 4);
    CHECK(values->over == 2); // 2 and 4; 1 is not above 1
    draft.above = false;
    CHECK(values_on(*recording, 5, half, draft)->over == 1);
    CHECK(values_on(*recording, 2, half, draft)->steps == 2);
    CHECK_FALSE(values_on(*recording, 5, own_signal_from_text("l = lag(entropy_bits, 9)", "the test"), draft)
                    .has_value());
}

} // namespace own_signal_test
