#include "engine/record/recording/older_cache_events.h"
#include "tests/support/made_run.h"
#include "tests/support/seed.h"
#include "ui/base/latest_answer.h"
#include "ui/scene/policy/thresholds.h"
#include "ui/scene/policy/what_if_preview.h"
#include "ui/scene/series/series_set.h"
#include "ui/scene/text/token_label.h"
#include "ui/scene/text/token_origins.h"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <bit>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace plot_recording_test {

using namespace refreshlab;
using namespace refreshlab::ui;

namespace {

std::shared_ptr<const TokenTable> words() {
    return std::make_shared<test::MadeTokens>(
        std::vector<std::string>{"<|end|>", " fox", "ing", "\n", "\xE2", "  ", ""}, 0);
}

std::shared_ptr<Recording> new_recording(int64_t prompt_length = 5) {
    RunInfo info = test::made_info(prompt_length);
    info.vocab_size = 6;
    return test::made_run(info, words());
}

/// An engine that keeps what is sent and applies nothing.
class FakeEngine final : public EngineLink {
public:
    uint64_t send(Command command) override {
        sent.push_back(std::move(command));
        return sent.size();
    }
    [[nodiscard]] std::shared_ptr<const EngineStatus> status() const override { return now; }
    [[nodiscard]] std::shared_ptr<const Recording> recording() const override { return nullptr; }
    void on_news(std::function<void()>) override {}
    [[nodiscard]] RunOutlook outlook(const RunConfig&) const override { return {}; }
    std::vector<Command> sent;
    std::shared_ptr<EngineStatus> now = std::make_shared<EngineStatus>();
};

EngineStatus status_with(RefreshPolicy policy) {
    EngineStatus status;
    status.applied.policy = std::move(policy);
    return status;
}

} // namespace

TEST_CASE(
    "series of a live recording: appended step by step, back-filled later, always equal to the recording",
    "[plot][SG7]") {
    const size_t entropy = *signal_id("entropy_bits"), kl = *signal_id("kl_nats"),
                 mean = *signal_id("mc_variance"), sd = *signal_id("mc_variance_sd");
    std::mt19937 random(test::seed(31));
    const auto recording = new_recording();
    SeriesSet set;
    int64_t filled = 0;
    for (int64_t t = 1; t <= 700; ++t) {
        StepRecord r = test::next_record(*recording);
        r.signals[entropy] = static_cast<float>(random() % 1000) / 100;
        if (t % 3 == 0) {
            r.signals[mean] = static_cast<float>(random() % 100) / 100;
            r.signals[sd] = 0.25F;
        }
        recording->append(r);
        if (random() % 40 == 0) { // a teacher pass fills everything since the last one
            std::vector<float> values;
            for (int64_t u = filled + 1; u <= t; ++u)
                values.push_back(random() % 9 == 0 ? absent() : static_cast<float>(random() % 100) / 50);
            recording->back_fill(kl, filled + 1, values);
            filled = t;
        }
        // Frames come now and then, and see a snapshot that may be older than the recording.
        if (random() % 5 != 0) continue;
        const int64_t steps = std::max<int64_t>(0, t - static_cast<int64_t>(random() % 3));
        set.begin_frame(recording, steps);
        for (const size_t id : {entropy, kl, mean}) {
            const SignalSeries& s = set.series(id);
            REQUIRE(s.size() <= steps);
            REQUIRE(s.size() >= steps - 3);
        }
    }
    set.begin_frame(recording, 700);
    for (const size_t id : {entropy, kl, mean}) {
        const SignalSeries& s = set.series(id);
        REQUIRE(s.size() == 700);
        SignalSeries rebuilt;
        for (int64_t t = 1; t <= 700; ++t) {
            const float value = recording->signal(t, id);
            CAPTURE(t, id);
            REQUIRE(std::bit_cast<uint32_t>(s.at(t)) == std::bit_cast<uint32_t>(value));
            REQUIRE(std::bit_cast<uint32_t>(set.value(t, id)) == std::bit_cast<uint32_t>(value));
            rebuilt.append(value);
        }
        for (int64_t first = 1; first < 700; first += 37)
            REQUIRE(s.summary(first, first + 100) == rebuilt.summary(first, first + 100));
    }
    const SeriesSet::Band* band = set.band(mean);
    REQUIRE(band != nullptr);
    REQUIRE(band->high.at(300) - band->low.at(300) > 0.49F);
    REQUIRE(is_absent(band->low.at(301)));
    REQUIRE(set.band(entropy) == nullptr);
    REQUIRE(is_absent(set.value(0, entropy)));
    REQUIRE(is_absent(set.value(701, entropy)));
    REQUIRE(set.series(kl).any_measured());
}

TEST_CASE("another recording starts the series anew", "[plot]") {
    const size_t entropy = *signal_id("entropy_bits");
    const auto first = new_recording(), second = new_recording();
    for (int64_t t = 1; t <= 10; ++t) {
        StepRecord r = test::next_record(*first);
        r.signals[entropy] = 1;
        first->append(r);
        r.signals[entropy] = 2;
        second->append(r);
    }
    SeriesSet set;
    set.begin_frame(first, 10);
    REQUIRE(set.series(entropy).at(10) == 1);
    set.begin_frame(second, 7);
    REQUIRE(set.series(entropy).size() == 7);
    REQUIRE(set.series(entropy).at(7) == 2);
    set.begin_frame(nullptr, 0);
    REQUIRE(set.series(entropy).size() == 0);
}

TEST_CASE("the line of a signal edits the trigger of that signal, and only that", "[plot][SG1][SG2]") {
    RefreshPolicy policy = preset_policy("entropy");
    Trigger kl;
    kl.signal = "kl_nats";
    kl.threshold = 0.5;
    kl.enabled = false;
    policy.triggers.push_back(kl);
    Drafts drafts;
    FakeEngine engine;
    drafts.begin_frame(status_with(policy));

    auto lines = threshold_lines(drafts, "entropy_bits");
    REQUIRE(lines.size() == 1);
    REQUIRE(lines[0].key == "entropy.threshold");
    REQUIRE(lines[0].value == policy.triggers[0].threshold);
    REQUIRE(lines[0].enabled);
    REQUIRE_FALSE(lines[0].pending);
    REQUIRE(threshold_lines(drafts, "kl_nats").size() == 1);
    REQUIRE_FALSE(threshold_lines(drafts, "kl_nats")[0].enabled);
    REQUIRE(threshold_lines(drafts, "drift").empty());

    drafts.edit(engine, lines[0].key, 5.2);
    lines = threshold_lines(drafts, "entropy_bits");
    REQUIRE(lines[0].value == 5.2);
    REQUIRE(lines[0].pending); // hollow until the engine has applied it
    REQUIRE(threshold_lines(drafts, "kl_nats")[0].value == 0.5);
    REQUIRE_FALSE(threshold_lines(drafts, "kl_nats")[0].pending);
    REQUIRE(engine.sent.size() == 1);
    EngineStatus applied = status_with(policy);
    applied.applied.policy.triggers[0].threshold = 5.2;
    applied.answered = 1;
    drafts.begin_frame(applied);
    lines = threshold_lines(drafts, "entropy_bits");
    REQUIRE(lines[0].value == 5.2);
    REQUIRE_FALSE(lines[0].pending);
}

TEST_CASE("thresholds of every signal that can trigger can be dragged within limits its parameter accepts",
          "[plot]") {
    for (const Signal& signal : signals()) {
        if (signal.letter == 0) continue;
        RefreshPolicy policy;
        policy.triggers.push_back(default_trigger(signal));
        check_policy(policy, "a default trigger");
        Drafts drafts;
        drafts.begin_frame(status_with(policy));
        const auto lines = threshold_lines(drafts, signal.name);
        CAPTURE(signal.name);
        REQUIRE(lines.size() == 1);
        REQUIRE(lines[0].value == signal.default_threshold);
        const DragLimits limits = drag_limits(lines[0], signal);
        REQUIRE(limits.min <= signal.default_threshold);
        REQUIRE(limits.max >= signal.default_threshold);
    }
    REQUIRE(threshold_parameter("entropy_bits") == "entropy.threshold");
    REQUIRE(threshold_parameter("steps_since_refresh") == "periodic.every");
    REQUIRE(threshold_parameter("no_such_signal").empty());
}

TEST_CASE("the what-if words have count, time, how far they are exact, and say estimate", "[plot][SG3]") {
    WhatIf answer;
    answer.fires = {10, 20, 30, 40, 50, 60, 70};
    answer.overhead = {11.3, 11.3};
    REQUIRE(what_if_text(answer, 5.2, "bits") == "at 5.2 bits: 7 refreshes, +11 % time (estimate)");
    answer.fires = {4};
    answer.overhead.reset();
    REQUIRE(what_if_text(answer, 0.45, "nats") == "at 0.45 nats: 1 refresh (estimate)");
    answer.overhead = {2.34, 2.34};
    REQUIRE(what_if_text(answer, 64, "tokens") == "at 64 tokens: 1 refresh, +2.3 % time (estimate)");
    answer.overhead = {72.4, 264.2}; // as far apart as a pass that reads little may cost
    REQUIRE(what_if_text(answer, 4, "bits") == "at 4 bits: 1 refresh, +72 to 260 % time (estimate)");
    REQUIRE(what_if_detail(answer) == "as recorded");
    answer.exact_until = 1200;
    answer.missing = 1;
    REQUIRE(what_if_detail(answer) == "exact to step 1,200, not measured at 1 step");
}

TEST_CASE("a preview counts the fires of the asked threshold, and of a long run in a job", "[plot][SG3]") {
    const size_t entropy = *signal_id("entropy_bits");
    for (const int64_t steps : {int64_t{200}, int64_t{9000}}) {
        const auto recording = new_recording();
        for (int64_t t = 1; t <= steps; ++t) {
            StepRecord r = test::next_record(*recording);
            r.signals[entropy] = t % 50 == 0 ? 7.0F : 1.0F;
            r.part_ms[0] = 2;
            recording->append(r);
        }
        RefreshPolicy policy = preset_policy("entropy");
        policy.triggers[0].every = 1;
        policy.triggers[0].cooldown = 0;
        policy.budget.refreshes.reset();
        policy.triggers[0].threshold = 6;
        WhatIfPreview preview;
        REQUIRE(preview.answer() == nullptr);
        preview.ask(recording, steps, policy);
        while (preview.busy()) // ends: the job does
            (void)preview.answer();
        REQUIRE(preview.answer() != nullptr);
        REQUIRE(preview.answer()->fires.size() == static_cast<size_t>(steps / 50));
        policy.triggers[0].threshold = 7.5;
        preview.ask(recording, steps, policy);
        while (preview.busy())
            (void)preview.answer();
        REQUIRE(preview.answer()->fires.empty());
        preview.clear();
        REQUIRE(preview.answer() == nullptr);
        // Back again: the same question once more is a new one.
        preview.ask(recording, steps, policy);
        while (preview.busy())
            (void)preview.answer();
        REQUIRE(preview.answer() != nullptr);
    }
}

namespace {
std::atomic<int> questions_worked{0};
int slow_double(const int& question) {
    ++questions_worked;
    return 2 * question;
}
} // namespace

TEST_CASE("of many questions put to a job the last one is answered, and cheap ones at once", "[plot][SG3]") {
    LatestAnswer<int, int> answers(slow_double);
    for (int i = 0; i <= 100; ++i)
        answers.ask(i, false);
    while (answers.busy())
        (void)answers.answer();
    REQUIRE(answers.answer() != nullptr);
    REQUIRE(*answers.answer() == 200);
    REQUIRE(questions_worked == 2); // the first one, which was under way, and the last
    // A cheap question overtakes a job: its answer is not overwritten by the late one.
    answers.ask(7, false);
    answers.ask(8, true);
    REQUIRE(*answers.answer() == 16);
    while (answers.busy())
        REQUIRE(*answers.answer() == 16);
    REQUIRE(*answers.answer() == 16);
    answers.clear();
    REQUIRE(answers.answer() == nullptr);
}

TEST_CASE("a calibration says threshold, quantile, checks and refreshes, and what it was calibrated on",
          "[plot][PO6]") {
    Calibration found{5.3141, 0.9975, 329, {}};
    found.outcome.fires = {12, 80, 200, 301};
    REQUIRE(calibration_text(found, "bits") ==
            "at 5.31 bits: quantile 0.9975 of 329 checks; 4 refreshes in this run (estimate)");
    found.q = 0.96;
    found.checks = 1;
    found.outcome = {{12}, {}, WhatIf::Overhead{3.14, 3.14}, 2};
    REQUIRE(calibration_text(found, "") == "at 5.31: quantile 0.96 of 1 check; 1 refresh in this run, +3.1 % "
                                           "time (estimate), not measured at 2 steps");
    const Calibration distance{400, {}, 0, {}};
    REQUIRE(calibration_text(distance, "tokens") == "at 400 tokens: 0 refreshes in this run (estimate)");
    REQUIRE(calibration_advice(330) == "calibrated on 330 tokens; 2,000 or more are advised");
    REQUIRE(calibration_advice(1999) != "");
    REQUIRE(calibration_advice(2000).empty());
}

TEST_CASE("token labels show spaces, newlines, bytes and special tokens, and never are empty",
          "[plot][TX3]") {
    const auto table = words();
    const TokenTable& words = *table;
    REQUIRE(token_label(words, 1) == "\" fox\"");
    REQUIRE(token_label(words, 3) == "\"\\n\"");
    REQUIRE(token_label(words, 4) == "\"\\xE2\"");
    REQUIRE(token_label(words, 0) == "<|end|>");
    REQUIRE(token_label(words, 6) == "token 6");
    REQUIRE(token_label(words, -1) == "none");
    REQUIRE(short_token_label(words, 1) == "fox");
    REQUIRE(short_token_label(words, 5) == "\"  \"");
    for (int32_t id = -1; id < 8; ++id)
        REQUIRE_FALSE(short_token_label(words, id).empty());
}

TEST_CASE("step t read y_t and chose y_{t+1}; the prefill chose y_1; there is nothing outside", "[plot]") {
    const auto recording = new_recording();
    for (int64_t t = 1; t <= 3; ++t) {
        StepRecord r = test::next_record(*recording);
        r.token_id = static_cast<int32_t>(t);
        r.next_token_id = t == 3 ? -1 : static_cast<int32_t>(t + 1);
        recording->append(r);
    }
    REQUIRE(token_chosen(*recording, 3, 0) == 2);
    REQUIRE(token_read(*recording, 3, 0) == -1);
    REQUIRE(token_read(*recording, 3, 2) == 2);
    REQUIRE(token_chosen(*recording, 3, 2) == 3);
    REQUIRE(token_chosen(*recording, 3, 3) == -1);
    REQUIRE(token_chosen(*recording, 3, 4) == -1);
    REQUIRE(token_read(*recording, 2, 3) == -1); // beyond the snapshot
}

TEST_CASE("origins of tokens follow the splices: refreshed, skipped by a window, still the student's",
          "[plot][TX4]") {
    const auto recording = new_recording(5);
    for (int64_t t = 1; t <= 30; ++t)
        recording->append(test::next_record(*recording));
    RefreshEvent all;
    all.step = all.fired_step = 10;
    all.delta = 10;
    all.first_pos = 5; // y_1 sits at position 5
    all.spliced = 10;
    recording->add_refresh(all);
    RefreshEvent window;
    window.step = 22; // lagged: fired at 20
    window.fired_step = 20;
    window.delta = 10;
    window.spliced = 4; // y_17 .. y_20
    window.first_pos = 5 + 16;
    recording->add_refresh(window);
    add_older_cache_events(*recording);
    TokenOrigins origins;
    origins.update(*recording, 30);
    for (int64_t t = 1; t <= 30; ++t) {
        CAPTURE(t);
        const Origin expected = t <= 10   ? Origin::teacher_refresh
                                : t <= 16 ? Origin::skipped
                                : t <= 20 ? Origin::teacher_refresh
                                          : Origin::student;
        REQUIRE(origins.of(t) == expected);
    }
    REQUIRE(origins.of(31) == Origin::none);
    origins.update(*recording, 21); // before the second refresh landed
    REQUIRE(origins.of(18) == Origin::student);
    REQUIRE(origins.of(10) == Origin::teacher_refresh);
    REQUIRE(origins.of(22) == Origin::none);
}

} // namespace plot_recording_test
