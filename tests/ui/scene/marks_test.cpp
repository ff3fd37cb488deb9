// Many refreshes: the rug, their reasons, the table of events, and where tooltips stand.
#include "engine/control/command.h"
#include "engine/refresh/policy.h"
#include "tests/support/made_run.h"
#include "tests/support/seed.h"
#include "tests/ui/maps/heatmap_recording.h"
#include "ui/scene/text/event_choice.h"
#include "ui/scene/text/event_table.h"
#include "ui/scene/text/rug.h"
#include "ui/scene/text/step_marks.h"
#include "ui/scene/text/tip_place.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace marks_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;

namespace {

TriggerHit hit_of(const std::string& signal, char letter, double value, double threshold) {
    TriggerHit hit;
    hit.trigger = signal.empty() ? -1 : 0;
    hit.signal = signal;
    hit.letter = letter;
    hit.value = value;
    hit.threshold = threshold;
    return hit;
}

const TriggerHit entropy = hit_of("entropy_bits", 'E', 6.5, 6),
                 periodic = hit_of("steps_since_refresh", 'P', 8, 8), by_hand = hit_of("", 'H', 0, 0);

/// `steps` steps, and a refresh with these hits at each of the given ones.
std::shared_ptr<Recording>
run_with(int64_t steps, const std::vector<std::pair<int64_t, std::vector<TriggerHit>>>& refreshes) {
    const auto recording = empty_recording(Mode::overfill, 4);
    size_t next = 0;
    for (int64_t t = 1; t <= steps; ++t) {
        append_step(*recording);
        if (next == refreshes.size() || refreshes[next].first != t) continue;
        RefreshEvent event;
        event.step = event.fired_step = t;
        event.id = static_cast<int32_t>(next);
        event.hits = refreshes[next].second;
        event.spliced = 10 + t;
        event.teacher_ms = 3;
        event.splice_ms = 1;
        event.token_before = 4;
        event.token_after = 5;
        recording->add_refresh(event);
        ++next;
    }
    return recording;
}

LaneMarks all_marks(const StepMarks& marks, MarkLane lane = MarkLane::refresh) {
    return marks.in_sight(lane, 0, 100, 50, 300);
}

} // namespace

TEST_CASE(
    "columns of the rug hold every mark once, stand still under a moving view, and are all of one width",
    "[plot][SG4]") {
    std::mt19937 random(test::seed(61));
    for (int round = 0; round < 100; ++round) {
        LaneMarks marks;
        double x = 10;
        for (size_t i = 0, n = 1 + random() % 60; i < n; ++i) {
            x += std::uniform_real_distribution<double>(0, 8)(random);
            marks.index.push_back(i);
            marks.x_px.push_back(x);
        }
        const double zero = std::uniform_real_distribution<double>(-500, 10)(random), width = 4;
        const auto columns = rug_columns(marks, zero, width);
        size_t next = 0;
        for (const MarkerGroup& column : columns) {
            REQUIRE(column.first == next);
            next = column.last + 1;
            REQUIRE(std::abs(column.x_max - column.x_min - width) < 1e-9);
            for (size_t i = column.first; i <= column.last; ++i)
                REQUIRE((marks.x_px[i] >= column.x_min - 1e-9 && marks.x_px[i] < column.x_max + 1e-9));
        }
        REQUIRE(next == marks.x_px.size());
        // The whole view moved by some pixels: the same marks share the same columns.
        LaneMarks moved = marks;
        for (double& at : moved.x_px)
            at += 64;
        const auto again = rug_columns(moved, zero + 64, width);
        REQUIRE(again.size() == columns.size());
        for (size_t i = 0; i < columns.size(); ++i)
            REQUIRE((again[i].first == columns[i].first && again[i].last == columns[i].last));
    }
}

TEST_CASE("the reasons of a group are counted, and in the same order in every group", "[plot][SG4]") {
    const auto recording = run_with(40, {{4, {periodic}},
                                         {8, {entropy}},
                                         {12, {periodic}},
                                         {16, {by_hand}},
                                         {20, {entropy, periodic}},
                                         {24, {entropy}}});
    const StepMarks all(recording);
    const LaneMarks marks = all_marks(all);
    REQUIRE(marks.index.size() == 6);
    const auto letters = [&](size_t first, size_t last) {
        std::string text;
        for (const ReasonShare& share : reason_shares(all, marks, {first, last, 0, 0}))
            text += reason_letter(all.hits(marks.lane, share.index)) + std::to_string(share.count);
        return text;
    };
    CHECK(letters(0, 0) == "P1");
    CHECK(letters(0, 2) == "E1P2");
    CHECK(letters(1, 3) == "E1H1P1");
    CHECK(letters(0, 5) == "+1E2H1P2"); // several reasons at once are one of their own
}

namespace {

/// A run whose entropy is 7 at every third step, with a threshold of 6 and a budget of no refreshes; at step 11 a person moves the
/// threshold beyond reach, looks at attention and refreshes.
std::shared_ptr<Recording> held_back_run(int64_t steps) {
    RunInfo info = empty_recording(Mode::overfill, 4)->info();
    info.config.policy = preset_policy("entropy");
    info.config.policy.triggers.at(0).threshold = 6;
    info.config.policy.triggers.at(0).every = 1;
    info.config.policy.triggers.at(0).cooldown = 0;
    info.config.policy.budget = {0, 100};
    auto recording = made_run(info);
    for (const Command& command : {Command(command::SetParameter{"entropy.threshold", "8"}),
                                   Command(command::RequestAttention{}), Command(command::RefreshNow{})})
        recording->add_command({11, to_json(command).dump()});
    const size_t entropy_bits = *signal_id("entropy_bits");
    for (int64_t t = 1; t <= steps; ++t) {
        StepRecord record = next_record(*recording, 4);
        record.signals[entropy_bits] = t % 3 == 0 ? 7.0F : 1.0F;
        recording->append(record);
    }
    return recording;
}

} // namespace

TEST_CASE("marks stand in lanes by step and place, as far as steps are shown", "[plot][SG4]") {
    const auto recording = held_back_run(20);
    StepMarks marks(recording);
    CHECK(marks.count(MarkLane::refresh) == 0);
    REQUIRE(marks.count(MarkLane::blocked) == 3); // 3, 6, 9; from 11 on the threshold is out of reach
    for (size_t i = 0; i < 3; ++i)
        CHECK(marks.step(MarkLane::blocked, i) == static_cast<int64_t>(3 * i + 3));
    CHECK(marks.hits(MarkLane::blocked, 1).size() == 1);
    CHECK(reason_label(recording->signals(), marks.hits(MarkLane::blocked, 1)) == "Entropy");
    CHECK(limit_words(marks.blocked(1)) == "the budget");
    const auto reason = [&](const std::string& signal) {
        const TriggerHit hit = {.trigger = -1, .signal = signal};
        return reason_label(recording->signals(), std::span(&hit, 1));
    };
    CHECK(reason("") == "by hand");
    CHECK(reason(std::string(scheduled_hit)) == "scheduled");
    CHECK(reason(std::string(draft_end_hit)) == "end of a draft");
    // A look at attention changes nothing, and a refresh by hand is no change of a setting.
    REQUIRE(marks.count(MarkLane::change) == 1);
    CHECK(marks.change(0).words == "Entropy threshold: 8 bits");
    CHECK(marks.hits(MarkLane::change, 0).empty());

    CHECK(marks.at(MarkLane::blocked, 6) == 1);
    CHECK_FALSE(marks.at(MarkLane::blocked, 7));
    CHECK(marks.first_from(MarkLane::blocked, 7) == 2);
    CHECK(marks.first_from(MarkLane::blocked, 10) == 3);
    const LaneMarks seen = marks.in_sight(MarkLane::blocked, 4, 9, 100, 50);
    CHECK(seen.index == std::vector<size_t>{1, 2});
    CHECK(seen.x_px == std::vector<double>{120, 150});
    const LaneMarks change = marks.in_sight(MarkLane::change, 10, 11, 0, 10); // between the steps
    REQUIRE(change.x_px.size() == 1);
    CHECK(change.x_px[0] == 5);
    CHECK(marks.in_sight(MarkLane::change, 11, 12, 0, 10).index.empty());

    marks.update(recording, 7);
    CHECK(marks.count(MarkLane::blocked) == 2);
    CHECK_FALSE(marks.at(MarkLane::blocked, 9));
    marks.update(run_with(10, {{5, {periodic}}}), 10);
    CHECK(marks.count(MarkLane::blocked) == 0);
    CHECK(marks.count(MarkLane::change) == 0);
    REQUIRE(marks.count(MarkLane::refresh) == 1);
    CHECK(marks.hits(MarkLane::refresh, 0).front().letter == 'P');
    marks.clear();
    CHECK(marks.count(MarkLane::refresh) == 0);
}

TEST_CASE("rows of events say what held a refresh back and what was changed", "[ui][SG18]") {
    const auto recording = held_back_run(20);
    const StepMarks marks(recording);
    const EventRow held = event_row(*recording, 20, marks, MarkLane::blocked, 2);
    CHECK(held.step == 9);
    CHECK(held.reason == "Entropy, prevented by the budget");
    CHECK(held.value_text == "7 bits");
    CHECK(held.threshold_text == "6 bits");
    CHECK(std::isnan(held.spliced));
    CHECK(held.chosen_before == held.chosen_after);
    const EventRow change = event_row(*recording, 20, marks, MarkLane::change, 0);
    CHECK(change.step == 11);
    CHECK(change.reason == "changed by hand: Entropy threshold: 8 bits");
    CHECK(change.value_text == "-");
    CHECK(event_row(*recording, 10, marks, MarkLane::change, 0).token_read ==
          "-"); // its step is not made yet
    const std::string csv = to_csv(events_table(std::vector{held, change}));
    CHECK(csv.find("9,\"Entropy, prevented by the budget\",7,6,,,") != std::string::npos);
}

TEST_CASE("drafts that were cut are marks with the token that went and what is in its place", "[plot][SG4]") {
    const auto recording = run_with(30, {});
    const auto add = [&](int64_t step, std::vector<bool> stays, int32_t instead) {
        DraftEvent draft;
        draft.step = step;
        draft.instead = instead;
        draft.teacher_ms = 2;
        for (size_t i = 0; i < stays.size(); ++i)
            draft.tokens.push_back({static_cast<int32_t>(i), stays[i], 0.25F, 0.5F, 0.5F});
        recording->add_draft(draft);
    };
    add(4, {true, true, true}, -1); // all stay: no mark
    add(6, {true, true, false, false}, 7);
    add(20, {false, false}, 8);
    const StepMarks marks(recording);
    REQUIRE(marks.count(MarkLane::cut) == 2);
    CHECK(marks.step(MarkLane::cut, 0) == 6);
    CHECK(marks.at(MarkLane::cut, 20) == 1);
    CHECK_FALSE(marks.at(MarkLane::cut, 4));
    CHECK(marks.hits(MarkLane::cut, 0).empty());
    // Token n is the n-th letter.
    CHECK(cut_words(recording->tokens(), marks.cut(0)) == "2 of 4 drafted tokens stay; \"c\" became \"h\"");
    CHECK(cut_words(recording->tokens(), marks.cut(1)) == "0 of 2 drafted tokens stay; \"a\" became \"i\"");
    const EventRow row = event_row(*recording, 30, marks, MarkLane::cut, 0);
    CHECK(row.reason == "draft cut: 2 of 4 stay");
    CHECK(row.value == 0.25);
    CHECK(row.threshold == 0.5);
    CHECK(row.chosen_before == "\"c\"");
    CHECK(row.chosen_after == "\"h\"");
    CHECK(row.ms == 2);
    CHECK(StepMarks(run_with(10, {})).count(MarkLane::cut) == 0);
}

TEST_CASE("the lanes that the table of events hides are kept by name", "[ui][SG18]") {
    CHECK(hidden_lanes({}).empty());
    EventChoice choice;
    choice.hidden = {false, true, false, true};
    CHECK(hidden_lanes(choice) == std::vector<std::string>{"held_back", "changes"});
    CHECK(without_lanes(hidden_lanes(choice)) == choice);
    CHECK(without_lanes({"of tomorrow"}) == EventChoice{});
}

TEST_CASE("refreshes are a crowd where they stand nearer to each other than a badge", "[plot][SG4]") {
    LaneMarks marks;
    CHECK(!crowded(marks, 400, 16));
    marks.index.resize(25);
    marks.x_px.resize(25);
    CHECK(!crowded(marks, 400, 16));
    marks.index.resize(26);
    CHECK(crowded(marks, 400, 16));
    CHECK(!crowded(marks, 800, 16));
}

TEST_CASE("a tooltip keeps off the middle of its plot and off the mouse, inside the screen", "[plot][SG17]") {
    std::mt19937 random(test::seed(62));
    const TipBox screen{0, 0, 1280, 720};
    const auto any = [&](float low, float high) {
        return std::uniform_real_distribution<float>(low, high)(random);
    };
    int beside = 0;
    for (int round = 0; round < 4000; ++round) {
        TipBox plot{any(0, 500), any(60, 300), 0, 0};
        plot.width = any(300, screen.width - plot.x);
        plot.height = any(60, screen.height - plot.y);
        const float mouse_x = any(plot.x, plot.right()), mouse_y = any(plot.y, plot.bottom());
        const TipBox tip = tip_place(plot, mouse_x, mouse_y, {0, 0, any(120, 280), any(60, 190)}, screen, 14);
        CAPTURE(plot.x, plot.y, plot.width, plot.height, mouse_x, mouse_y, tip.x, tip.y, tip.width,
                tip.height);
        REQUIRE((tip.x >= 0 && tip.y >= 0 && tip.right() <= 1280.01F && tip.bottom() <= 720.01F));
        const float middle_x = plot.x + plot.width / 2;
        const bool over_middle =
            tip.x < middle_x && middle_x < tip.right() && tip.y < plot.bottom() && tip.bottom() > plot.y;
        const bool over_mouse =
            tip.x <= mouse_x && mouse_x < tip.right() && tip.y <= mouse_y && mouse_y < tip.bottom();
        const bool room_above = plot.y - 14 - tip.height >= 0,
                   room_below = plot.bottom() + 14 + tip.height <= 720;
        const bool room_beside =
            mouse_x < middle_x ? mouse_x - 14 - tip.width >= 0 : mouse_x + 14 + tip.width <= 1280;
        if (room_beside || room_above || room_below) {
            REQUIRE(!over_middle);
            REQUIRE(!over_mouse);
            ++beside;
        }
    }
    CHECK(beside > 3000);
}

TEST_CASE("notes are a lane: a branch shows those of shared steps, and a change renews it", "[ui][notes]") {
    const auto recording = run_with(30, {});
    const auto branch = recording->fork(10, "00000000000000bb");
    StepMarks marks(branch);
    CHECK(marks.count(MarkLane::note) == 0);
    StepNote note;
    note.first_step = 4;
    note.last_step = 20;
    note.colour = 3;
    note.text = "loses\nthe names";
    const int64_t id = recording->notes()->add(note);
    note.first_step = note.last_step = 12; // behind the fork
    recording->notes()->add(note);
    const uint64_t before = marks.notes_revision();
    marks.update(branch, branch->steps());
    CHECK(marks.notes_revision() != before);
    REQUIRE(marks.count(MarkLane::note) == 1);
    CHECK(marks.step(MarkLane::note, 0) == 4);
    CHECK(marks.note(0).note.last_step == 10);
    CHECK(marks.hits(MarkLane::note, 0).empty());
    const EventRow row = event_row(*branch, branch->steps(), marks, MarkLane::note, 0);
    CHECK(row.reason == "note: loses");
    CHECK(row.value_text == "-");
    CHECK(row.chosen_before == row.chosen_after);
    CHECK(StepMarks(recording).count(MarkLane::note) == 2);
    // Steps 4 to 20, and step 12.
    const StepMarks whole(recording);
    const auto over = [&](int64_t first, int64_t last) { return whole.notes_over(first, last); };
    CHECK(over(1, 3).empty());
    CHECK(over(1, 4) == std::vector<size_t>{0});
    CHECK(over(12, 12) == std::vector<size_t>{0, 1});
    CHECK(over(13, 20) == std::vector<size_t>{0});
    CHECK(over(21, 30).empty());
    marks.update(branch, 3); // a step that is not shown yet has none
    CHECK(marks.count(MarkLane::note) == 0);
    recording->notes()->erase(id);
    marks.update(branch, branch->steps());
    CHECK(marks.count(MarkLane::note) == 0);
    note.text.clear();
    CHECK(note_words(note) == "bookmark");
    CHECK(without_lanes({"notes"}).shows(MarkLane::note) == false);
}

TEST_CASE("the table of events tells names, units and tokens, and by hand has no threshold", "[ui][SG18]") {
    const auto recording = run_with(30, {{5, {entropy}}, {9, {by_hand}}, {20, {entropy, periodic}}});
    const StepMarks all(recording);
    const auto row = [&](size_t i) {
        return event_row(*recording, recording->steps(), all, MarkLane::refresh, i);
    };
    CHECK(row(0).step == 5);
    CHECK(row(0).reason == "Entropy");
    CHECK(row(0).value_text == "6.5 bits");
    CHECK(row(0).threshold_text == "6 bits");
    CHECK(row(0).spliced == 15);
    CHECK(row(0).ms == 4);
    CHECK(row(0).token_read != row(0).chosen_before);
    CHECK(row(0).chosen_before != row(0).chosen_after);
    CHECK(row(1).reason == "by hand");
    CHECK(row(1).value_text == "-");
    CHECK(std::isnan(row(1).threshold));
    CHECK(row(2).reason.find("Entropy, ") == 0); // all that fired, by the registry's names
    CHECK(row(2).reason.find('_') == std::string::npos);
}

TEST_CASE("events sort by every column, in both directions, those without a value last", "[ui][SG18]") {
    std::mt19937 random(test::seed(63));
    std::vector<EventRow> rows(60);
    for (size_t i = 0; i < rows.size(); ++i) {
        rows[i].index = i;
        rows[i].step = static_cast<int64_t>(i);
        rows[i].value = random() % 4 == 0 ? std::nan("") : static_cast<double>(random() % 9);
        rows[i].threshold = static_cast<double>(random() % 3);
        rows[i].spliced = static_cast<double>(random() % 5);
        rows[i].ms = static_cast<double>(random() % 7);
        rows[i].reason = std::string(1, static_cast<char>('a' + random() % 3));
        rows[i].token_read = rows[i].chosen_before = rows[i].chosen_after = std::to_string(random() % 10);
    }
    for (size_t c = 0; c < num_event_columns; ++c) {
        for (const bool descending : {false, true}) {
            auto sorted = rows;
            sort_events(
                sorted,
                {.hidden = {}, .sorted_by = std::string(event_column_keys()[c]), .descending = descending});
            CAPTURE(c, descending);
            for (size_t i = 1; i < sorted.size(); ++i) {
                const EventRow &a = descending ? sorted[i] : sorted[i - 1],
                               &b = descending ? sorted[i - 1] : sorted[i];
                switch (static_cast<EventColumn>(c)) {
                case EventColumn::step:
                    REQUIRE(a.step <= b.step);
                    break;
                case EventColumn::reason:
                    REQUIRE(a.reason <= b.reason);
                    break;
                case EventColumn::value:
                    if (std::isnan(sorted[i - 1].value))
                        REQUIRE(std::isnan(sorted[i].value));
                    else if (!std::isnan(sorted[i].value))
                        REQUIRE(a.value <= b.value);
                    break;
                case EventColumn::threshold:
                    REQUIRE(a.threshold <= b.threshold);
                    break;
                case EventColumn::spliced:
                    REQUIRE(a.spliced <= b.spliced);
                    break;
                case EventColumn::ms:
                    REQUIRE(a.ms <= b.ms);
                    break;
                case EventColumn::token_read:
                    REQUIRE(a.token_read <= b.token_read);
                    break;
                case EventColumn::before:
                    REQUIRE(a.chosen_before <= b.chosen_before);
                    break;
                case EventColumn::after:
                    REQUIRE(a.chosen_after <= b.chosen_after);
                    break;
                }
            }
        }
    }
}

TEST_CASE("events as CSV have a header, a line each, and quotes where a text needs them", "[ui][SG18]") {
    EventRow row;
    row.step = 7;
    row.reason = "Entropy, Age";
    row.value = 6.25;
    row.threshold = std::nan("");
    row.spliced = 12;
    row.ms = 0.5;
    row.token_read = "\" a\"";
    row.chosen_before = row.chosen_after = "b";
    const std::string csv = to_csv(events_table(std::vector{row, row}));
    CHECK(std::ranges::count(csv, '\n') == 3);
    CHECK(
        csv.find("Step,Reason,Value,Threshold,Spliced,Time (ms),Token read,Chosen before,Chosen after\r\n") ==
        0);
    CHECK(csv.find("7,\"Entropy, Age\",6.25,,12,0.5,\"\"\" a\"\"\",b,b\r\n") != std::string::npos);
}

} // namespace marks_test
