#include "engine/record/recording/older_cache_events.h"
#include "tests/support/seed.h"
#include "tests/ui/maps/heatmap_recording.h"
#include "ui/scene/maps/cache_map.h"
#include "ui/scene/maps/cache_model.h"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <random>

namespace heatmap_cache_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;

namespace {

struct Column {
    Origin origin = Origin::none;
    int32_t refresh = -1;
    int64_t written_at = 0;
    std::optional<float> drift_k;
    friend bool operator==(const Column&, const Column&) = default;
};

/// A run replayed column by column as reference/refresh.md, section 3 says it, with a snapshot after each boundary.
struct Replay {
    std::shared_ptr<Recording> recording;
    std::vector<std::vector<Column>> behind; ///< by step, from 0
};

Replay random_run(std::mt19937& random, int64_t steps) {
    const auto prompt = static_cast<int64_t>(1 + random() % 9);
    Replay run{empty_recording(Mode::overfill, prompt, 1), {}};
    std::vector<Column> columns(static_cast<size_t>(prompt), Column{Origin::teacher_prefill, -1, 0, {}});
    run.behind.push_back(columns);
    int64_t watermark = prompt; // P: the first position that no splice has handled
    int32_t id = 0;
    for (int64_t t = 1; t <= steps; ++t) {
        append_step(*run.recording);
        columns.push_back({Origin::student, -1, t, {}});
        if (random() % 4 == 0) {
            const auto length = static_cast<int64_t>(columns.size());
            const int64_t delta = length - watermark;
            const int64_t window =
                random() % 2 == 0 ? delta : static_cast<int64_t>(random() % 4); // 0: nothing spliced
            const int64_t k = std::min(window, delta);
            DriftMap drift{t, id, watermark, delta, 1, {}, {}, {}, {}};
            for (int64_t p = watermark; p < length; ++p) {
                Column& column = columns[static_cast<size_t>(p)];
                column.refresh = id;
                column.drift_k = static_cast<float>(random() % 1000) / 999.0F;
                drift.k.push_back(*column.drift_k);
                drift.v.push_back(*column.drift_k + 1);
                if (p < length - k) {
                    column.origin = Origin::skipped;
                } else {
                    column.origin = Origin::teacher_refresh;
                    column.written_at = t;
                }
            }
            RefreshEvent event;
            event.step = event.fired_step = t;
            event.id = id++;
            event.delta = delta;
            event.first_pos = length - k;
            event.spliced = k;
            run.recording->add_drift(std::make_shared<const DriftMap>(drift));
            run.recording->add_refresh(event);
            watermark = length;
        }
        run.behind.push_back(columns);
    }
    add_older_cache_events(*run.recording);
    return run;
}

void check_against(const Recording& recording, const std::vector<std::vector<Column>>& behind, int64_t step) {
    const std::vector<Column>& expected = behind[static_cast<size_t>(step)];
    const CacheColumns columns = cache_columns(recording, step);
    CAPTURE(step);
    REQUIRE(columns.length() == static_cast<int64_t>(expected.size()));
    const DriftColumns drift = drift_columns(recording, step, columns.length());
    for (size_t p = 0; p < expected.size(); ++p) {
        CAPTURE(p);
        CHECK(columns.origin[p] == expected[p].origin);
        CHECK(columns.refresh[p] == expected[p].refresh);
        CHECK(columns.written_at[p] == expected[p].written_at);
        CHECK(columns.age(static_cast<int64_t>(p)) == step - expected[p].written_at);
        if (drift.layers == 0) {
            CHECK_FALSE(expected[p].drift_k.has_value());
        } else if (expected[p].drift_k) {
            CHECK(drift.k[p] == *expected[p].drift_k);
            CHECK(drift.v[p] == *expected[p].drift_k + 1);
            CHECK(is_absent(drift.k_max[p])); // this run recorded none
        } else {
            CHECK(is_absent(drift.k[p]));
        }
    }
}

} // namespace

TEST_CASE("the cache of any step is what a replay of the run finds there", "[ui]") {
    const auto seed = test::seed(1);
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 25; ++round) {
        const Replay run = random_run(random, 40);
        for (int64_t step = 0; step <= 40; ++step)
            check_against(*run.recording, run.behind, step);
    }
}

TEST_CASE("a view that follows a run shows what one made at once shows", "[ui]") {
    std::mt19937 random(test::seed(3));
    for (int round = 0; round < 25; ++round) {
        const Replay run = random_run(random, 40);
        const Recording& recording = *run.recording;
        CacheModel view; // with jumps forward and back
        for (int64_t step = 0, moves = 0; moves < 60; ++moves) {
            view.update(recording, step);
            const CacheColumns columns = cache_columns(recording, step);
            CAPTURE(round, step);
            REQUIRE(view.columns().step == columns.step);
            REQUIRE(view.columns().origin == columns.origin);
            REQUIRE(view.columns().refresh == columns.refresh);
            REQUIRE(view.columns().written_at == columns.written_at);
            REQUIRE(view.teacher_length() == teacher_length(recording, step));
            const DriftColumns drift = drift_columns(recording, step, columns.length());
            REQUIRE(view.drift().layers == drift.layers);
            const auto same = [](float a, float b) { return is_absent(a) ? is_absent(b) : a == b; };
            for (int64_t layer = 0; layer < drift.layers; ++layer)
                for (int64_t p = 0; p < columns.length(); ++p) {
                    const size_t there = view.drift().index(layer, p), here = drift.index(layer, p);
                    REQUIRE(same(view.drift().k[there], drift.k[here]));
                    REQUIRE(same(view.drift().v[there], drift.v[here]));
                    const float mean =
                        is_absent(drift.k[here]) ? absent() : (drift.k[here] + drift.v[here]) / 2;
                    REQUIRE(same(view.shown()[there], mean));
                }
            step = random() % 6 == 0 ? static_cast<int64_t>(random() % 41)
                                     : std::min<int64_t>(40, step + static_cast<int64_t>(random() % 3));
        }
    }
}

TEST_CASE("a rewound run shows the cache of its own past", "[ui]") {
    const auto seed = test::seed(2);
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 10; ++round) {
        const Replay run = random_run(random, 30);
        const auto at = static_cast<int64_t>(random() % 31);
        const auto branch = run.recording->fork(at, "00000000000000bb");
        for (int64_t step = 0; step <= at; ++step)
            check_against(*branch, run.behind, step);
    }
}

TEST_CASE("runs of one model have its origins only", "[ui]") {
    const auto student = empty_recording(Mode::student, 3), teacher = empty_recording(Mode::teacher, 3);
    for (const auto& recording : {student, teacher}) {
        append_step(*recording);
        append_step(*recording);
        add_older_cache_events(*recording);
    }
    CHECK(cache_columns(*student, 2).origin ==
          std::vector<Origin>{Origin::student_prefill, Origin::student_prefill, Origin::student_prefill,
                              Origin::student, Origin::student});
    CHECK(cache_columns(*teacher, 2).origin ==
          std::vector<Origin>{Origin::teacher_prefill, Origin::teacher_prefill, Origin::teacher_prefill,
                              Origin::teacher_decode, Origin::teacher_decode});
}

TEST_CASE("the last token of a finished run has no column, for it was never fed", "[ui]") {
    const auto recording = empty_recording(Mode::overfill, 4);
    append_step(*recording);
    append_step(*recording, false);
    add_older_cache_events(*recording);
    CHECK(cache_columns(*recording, 1).length() == 5);
    CHECK(cache_columns(*recording, 2).length() == 5);
    CHECK(cache_columns(*recording, 99).length() == 5); // beyond the end: the end
    CHECK(cache_columns(*recording, 0).length() == 4);
}

TEST_CASE("where geometries differ, refreshed columns are the student's own", "[ui]") {
    RunInfo info;
    info.config.mode = Mode::overfill;
    info.rebuild = true;
    info.prompt_ids = {1, 2};
    const auto recording = made_run(info);
    append_step(*recording);
    RefreshEvent event;
    event.step = event.fired_step = 1;
    event.delta = event.spliced = 1;
    event.first_pos = 2;
    recording->add_refresh(event);
    add_older_cache_events(*recording);
    const CacheColumns columns = cache_columns(*recording, 1);
    CHECK(columns.origin ==
          std::vector<Origin>{Origin::student_prefill, Origin::student_prefill, Origin::student});
    CHECK(columns.refresh == std::vector<int32_t>{-1, -1, 0});
}

TEST_CASE("the teacher's cache holds the prompt and what its passes and refreshes have read", "[ui]") {
    const auto recording = empty_recording(Mode::overfill, 4);
    for (int i = 0; i < 6; ++i)
        append_step(*recording);
    recording->add_pass({2, 4, 2, true, false, absent(), 0});
    RefreshEvent event;
    event.step = event.fired_step = 5;
    event.delta = event.spliced = 5;
    event.first_pos = 4;
    recording->add_refresh(event);
    add_older_cache_events(*recording);
    CHECK(teacher_length(*recording, 0) == 4);
    CHECK(teacher_length(*recording, 1) == 4);
    CHECK(teacher_length(*recording, 2) == 6);
    CHECK(teacher_length(*recording, 4) == 6);
    CHECK(teacher_length(*recording, 6) == 9);
    CHECK(teacher_length(*empty_recording(Mode::student, 4), 0) == 0);
}

} // namespace heatmap_cache_test
