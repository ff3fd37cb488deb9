// What the window works out about a run that stands: words in its text, what its triggers did, lines that moved since.
#include "engine/signals/registry.h"
#include "tests/support/made_run.h"
#include "tests/support/seed.h"
#include "tests/ui/maps/heatmap_recording.h"
#include "ui/context/path_memory.h"
#include "ui/scene/policy/command_words.h"
#include "ui/scene/policy/live_changes.h"
#include "ui/scene/policy/trigger_results.h"
#include "ui/scene/series/series_set.h"
#include "ui/scene/text/text_finder.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

namespace after_run_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;

namespace {

void append_token(Recording& recording, int32_t next) {
    recording.append(next_record(recording, next));
}

/// A text of small letters, one a token: y_1 is 'c' as in empty_recording().
std::shared_ptr<Recording> with_text(std::string_view rest) {
    auto recording = empty_recording(Mode::overfill, 3);
    for (const char c : rest)
        append_token(*recording, c - 'a');
    return recording;
}

} // namespace

TEST_CASE("words are found across tokens, also while the text grows, as a plain search finds them",
          "[ui][text]") {
    std::mt19937_64 random(seed(71));
    for (int round = 0; round < 60; ++round) {
        auto recording = with_text("");
        std::string text = "c";
        TextFinder finder;
        std::string query;
        for (int length = 1 + static_cast<int>(random() % 3); length > 0; --length)
            query += static_cast<char>('a' + random() % 3);
        for (int step = 0; step < 40; ++step) {
            const auto letter = static_cast<int32_t>(random() % 3);
            append_token(*recording, letter);
            text += static_cast<char>('a' + letter);
            if (random() % 3 == 0 && step < 39) continue; // several tokens between two frames
            finder.update(recording, static_cast<int64_t>(text.size()), query);
            std::vector<TextFinder::Match> expected;
            for (size_t at = text.find(query); at != std::string::npos;
                 at = text.find(query, at + query.size()))
                expected.push_back({static_cast<int64_t>(at) + 1, static_cast<int64_t>(at + query.size())});
            CHECK(finder.matches() == expected);
        }
    }
}

TEST_CASE("the search goes on at the other end, and the case of letters does not count", "[ui][text]") {
    const auto recording = with_text("abxabxab"); // cabxabxab
    TextFinder finder;
    finder.update(recording, 9, "AB");
    REQUIRE(finder.matches() == std::vector<TextFinder::Match>{{2, 3}, {5, 6}, {8, 9}});
    CHECK(*finder.beside(0, true) == TextFinder::Match{2, 3});
    CHECK(*finder.beside(2, true) == TextFinder::Match{5, 6});
    CHECK(*finder.beside(8, true) == TextFinder::Match{2, 3});
    CHECK(*finder.beside(8, false) == TextFinder::Match{5, 6});
    CHECK(*finder.beside(2, false) == TextFinder::Match{8, 9});
    finder.update(recording, 9, "");
    CHECK(finder.beside(0, true) == nullptr);
    finder.update(recording, 9, "xx");
    CHECK(finder.matches().empty());
    CHECK(text_of_tokens(*recording, 1, 4) == "cabx");
}

TEST_CASE("words of notes are found beside those of the text, at the tokens of their steps",
          "[ui][text][notes]") {
    const auto recording = with_text("abxabxab"); // cabxabxab
    const auto write = [&](int64_t first, int64_t last, const char* words) {
        StepNote note;
        note.first_step = first;
        note.last_step = last;
        note.text = words;
        return recording->notes()->add(note);
    };
    write(3, 5, "here AB is lost");
    const int64_t other = write(2, 2, "elsewhere");
    StepMarks marks(recording);
    TextFinder finder;
    finder.update(recording, 9, "ab", &marks);
    CHECK(finder.matches() == std::vector<TextFinder::Match>{{2, 3}, {4, 6}, {5, 6}, {8, 9}});
    CHECK(finder.in_notes() == 1);
    CHECK(*finder.beside(3, true) == TextFinder::Match{4, 6});
    // A note that changes is looked at again, and only then.
    StepNote changed = *recording->notes()->find(other);
    changed.text = "ab, too";
    recording->notes()->put(changed);
    marks.update(recording, recording->steps());
    finder.update(recording, 9, "ab", &marks);
    CHECK(finder.matches() == std::vector<TextFinder::Match>{{2, 3}, {3, 3}, {4, 6}, {5, 6}, {8, 9}});
    finder.update(recording, 9, "", &marks);
    CHECK(finder.matches().empty());
    CHECK(finder.in_notes() == 0);
}

TEST_CASE("what a trigger has done: fires, time, KL before and after", "[ui][policy]") {
    auto recording = empty_recording(Mode::overfill, 4);
    for (int i = 0; i < 40; ++i)
        append_step(*recording);
    const auto fire = [&](int64_t step, std::vector<std::string> signals_of_it) {
        RefreshEvent event;
        event.step = event.fired_step = step;
        event.teacher_ms = 3;
        event.splice_ms = 1;
        for (const std::string& name : signals_of_it) {
            TriggerHit hit;
            hit.trigger = 0;
            hit.signal = name;
            event.hits.push_back(hit);
        }
        recording->add_refresh(event);
    };
    fire(10, {"entropy_bits"});
    fire(20, {"entropy_bits", "steps_since_refresh"});
    fire(30, {});
    TriggerResults kept; // from one question to the next: the same as counted anew
    const auto trigger_result = [&](const Recording& run, int64_t steps, std::string_view signal) {
        TriggerResults anew;
        anew.update(run, steps);
        kept.update(run, steps);
        const TriggerResult a = anew.of(signal), b = kept.of(signal);
        CHECK((a.fires == b.fires && a.ms == b.ms && a.compared == b.compared && a.kl_before == b.kl_before &&
               a.kl_after == b.kl_after));
        return b;
    };
    CHECK(result_text(trigger_result(*recording, 9, "entropy_bits")) == "has not fired yet");
    const TriggerResult unread = trigger_result(*recording, 40, "entropy_bits");
    CHECK(unread.fires == 2);
    CHECK(unread.ms == Catch::Approx(8));
    CHECK_FALSE(unread.kl_before.has_value());
    CHECK(result_text(unread) == "2 fires, 8 ms");
    // KL 4 up to each refresh, 1 after the first, 2 after the second; the last side was never read.
    const size_t kl = *signal_id("kl_nats");
    std::vector<float> values(30, 4.0F);
    for (size_t i = 10; i < 14; ++i)
        values[i] = 1.0F; // steps 11 to 14
    for (size_t i = 20; i < 24; ++i)
        values[i] = 2.0F;
    recording->back_fill(kl, 1, values);
    const TriggerResult read = trigger_result(*recording, 40, "entropy_bits");
    CHECK(read.compared == 2);
    // Before the first: steps 3 to 10, all 4. Before the second: 13 to 20, of which 13 and 14 have 1.
    CHECK(*read.kl_before == Catch::Approx((4.0 + (2 * 1.0 + 6 * 4.0) / 8) / 2));
    CHECK(*read.kl_after == Catch::Approx(((4 * 1.0 + 4 * 4.0) / 8 + (4 * 2.0 + 4 * 4.0) / 8) / 2));
    CHECK(trigger_result(*recording, 40, "steps_since_refresh").fires == 1);
    CHECK(trigger_result(*recording, 40, "kl_nats").fires == 0);
    // It goes on, and the teacher reads what stands before each new refresh.
    for (int64_t step = 41; step <= 120; ++step) {
        append_step(*recording);
        if (step % 7 != 0) continue;
        fire(step, {"entropy_bits"});
        recording->back_fill(kl, step - 6, std::vector<float>(7, static_cast<float>(step % 5)));
        static_cast<void>(trigger_result(*recording, step, "entropy_bits"));
    }
    recording->back_fill(kl, 31, values); // late, far back
    CHECK(trigger_result(*recording, 120, "entropy_bits").fires == 2 + 12);
}

TEST_CASE("right and wrong are counted where a task has said", "[ui]") {
    auto recording = empty_recording(Mode::overfill, 4);
    for (int i = 0; i < 10; ++i)
        append_step(*recording);
    const size_t score = *signal_id("task_score");
    recording->back_fill(score, 2, std::vector<float>{1, 0, absent(), 1, 1});
    const VerdictCount all = count_verdicts(*recording, 10, score);
    CHECK(all.yes == 3);
    CHECK(all.no == 1);
    CHECK(count_verdicts(*recording, 2, score).yes == 1);
}

TEST_CASE("a threshold has moved since the run when the last step ran with another", "[ui][policy]") {
    auto recording = empty_recording(Mode::overfill, 4);
    for (int i = 0; i < 5; ++i)
        append_step(*recording);
    LiveChanges none;
    none.update(*recording);
    CHECK(moved_since_run(none, 5, "entropy_bits", {}, 6)); // that run had no such trigger
    RunInfo info = recording->info();
    info.config.policy = preset_policy("entropy");
    const double threshold = info.config.policy.triggers.at(0).threshold;
    auto gated = made_run(info);
    for (int i = 0; i < 5; ++i)
        append_step(*gated);
    LiveChanges changes;
    changes.update(*gated);
    CHECK_FALSE(moved_since_run(changes, 5, "entropy_bits", {}, threshold));
    CHECK(moved_since_run(changes, 5, "entropy_bits", {}, threshold - 1));
}

TEST_CASE("why a run has ended is said in words", "[ui]") {
    for (const char* reason : {"max_tokens", "given_end", "stop_token", "context_limit", "cancelled"})
        CHECK(stop_text(reason).find('_') == std::string::npos);
    CHECK(stop_text("something new") == "something new");
}

TEST_CASE("a dialog begins where the last one of its kind was, and with what was typed and left", "[ui]") {
    const std::filesystem::path folder = std::filesystem::path(RL_BUILD_DIR) / "test-files" / "path-memory";
    std::filesystem::create_directories(folder);
    PathMemory memory;
    CHECK(memory.start("trace", "run.rlt") == (home_folder() / "run.rlt").string());
    memory.accept("trace", folder / "a.rlt");
    CHECK(memory.start("trace", "run.rlt") == (folder / "run.rlt").string());
    CHECK(memory.start("picture", "x.png") == (home_folder() / "x.png").string());
    memory.typed["trace"] = "/half/of a na";
    CHECK(memory.start("trace", "run.rlt") == "/half/of a na");
    memory.accept("trace", folder / "b.rlt"); // taken at last
    CHECK(memory.start("trace", "run.rlt") == (folder / "run.rlt").string());
    std::filesystem::remove_all(folder);
    CHECK(memory.start("trace", "run.rlt") == (home_folder() / "run.rlt").string()); // that folder is gone
}

} // namespace after_run_test
