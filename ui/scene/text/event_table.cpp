#include "ui/scene/text/event_table.h"

#include "ui/base/format.h"
#include "ui/scene/text/token_label.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace refreshlab::ui {
namespace {

constexpr size_t token_chars = 20;

constexpr std::array<std::string_view, num_event_columns> names = {
    "Step",      "Reason",     "Value",         "Threshold",   "Spliced",
    "Time (ms)", "Token read", "Chosen before", "Chosen after"};

/// A number to sort by; NaN = none, and for texts.
double number_of(const EventRow& row, EventColumn column) {
    switch (column) {
    case EventColumn::step:
        return static_cast<double>(row.step);
    case EventColumn::value:
        return row.value;
    case EventColumn::threshold:
        return row.threshold;
    case EventColumn::spliced:
        return row.spliced;
    case EventColumn::ms:
        return row.ms;
    default:
        return std::numeric_limits<double>::quiet_NaN();
    }
}

const std::string* text_of(const EventRow& row, EventColumn column) {
    switch (column) {
    case EventColumn::reason:
        return &row.reason;
    case EventColumn::token_read:
        return &row.token_read;
    case EventColumn::before:
        return &row.chosen_before;
    case EventColumn::after:
        return &row.chosen_after;
    default:
        return nullptr;
    }
}

} // namespace

std::string_view event_column_name(EventColumn column) {
    return names[static_cast<size_t>(column)];
}

std::span<const std::string_view> event_column_keys() {
    static constexpr std::array<std::string_view, num_event_columns> keys = {
        "step", "reason", "value", "threshold", "spliced", "ms", "token_read", "before", "after"};
    return keys;
}

EventRow event_row(const Recording& recording, int64_t steps, const StepMarks& marks, MarkLane lane,
                   size_t index) {
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    EventRow row;
    row.lane = lane;
    row.index = index;
    row.step = marks.step(lane, index);
    row.value = row.threshold = row.spliced = row.ms = none;
    row.value_text = row.threshold_text = "-";
    const auto signals = recording.signals();
    for (const TriggerHit& hit : marks.hits(lane, index)) {
        if (hit.trigger < 0 || hit.signal.empty()) continue;
        const auto id = find_signal(signals, hit.signal);
        const std::string_view unit = id ? signals[*id].unit : std::string_view();
        row.value = hit.value;
        row.threshold = hit.threshold;
        row.value_text = format_value(hit.value, unit);
        row.threshold_text = format_value(hit.threshold, unit);
        break;
    }
    const TokenTable& tokens = recording.tokens();
    const auto label = [&](int32_t id) {
        return id >= 0 ? token_label(tokens, id, token_chars) : std::string("-");
    };
    const bool made = row.step <= steps;
    row.token_read = label(made ? token_read(recording, steps, row.step) : -1);
    row.chosen_before = row.chosen_after = label(made ? token_chosen(recording, steps, row.step) : -1);
    switch (lane) {
    case MarkLane::refresh: {
        const RefreshEvent& refresh = marks.refresh(index);
        row.reason = reason_label(signals, refresh.hits);
        row.spliced = static_cast<double>(refresh.spliced);
        row.ms = refresh.teacher_ms + refresh.splice_ms + refresh.redraw_ms;
        row.chosen_before = label(refresh.token_before);
        row.chosen_after = label(refresh.token_after);
        break;
    }
    case MarkLane::blocked: {
        const BlockedFire& fire = marks.blocked(index);
        row.reason = fmt::format("{}, prevented by {}", reason_label(signals, fire.hits), limit_words(fire));
        break;
    }
    case MarkLane::cut: {
        const DraftEvent& draft = marks.cut(index);
        const DraftToken& first = draft.tokens[static_cast<size_t>(draft.accepted())];
        row.reason = fmt::format("draft cut: {} of {} stay", draft.accepted(), draft.tokens.size());
        row.value = static_cast<double>(first.p_teacher);
        row.threshold = static_cast<double>(first.p_student);
        row.value_text = fmt::format("teacher {}", format_number(row.value));
        row.threshold_text = fmt::format("student {}", format_number(row.threshold));
        row.ms = draft.teacher_ms;
        row.chosen_before = label(first.token_id);
        row.chosen_after = label(draft.instead);
        break;
    }
    case MarkLane::change:
        row.reason = "changed by hand: " + marks.change(index).words;
        break;
    case MarkLane::note:
        row.reason = "note: " + note_words(marks.note(index).note);
        break;
    }
    return row;
}

std::vector<EventRow> event_rows(const Recording& recording, const StepMarks& marks,
                                 const EventChoice& choice, StepRange range) {
    std::vector<EventRow> rows;
    for (const MarkLane lane : mark_lanes)
        for (size_t i = choice.shows(lane) ? marks.first_from(lane, range.first) : marks.count(lane);
             i < marks.count(lane) && marks.step(lane, i) <= range.last; ++i)
            rows.push_back(event_row(recording, recording.steps(), marks, lane, i));
    sort_events(rows, choice.table);
    return rows;
}

void sort_events(std::vector<EventRow>& rows, const TableView& view) {
    const auto column = static_cast<EventColumn>(view.sorted_column(event_column_keys()).value_or(0));
    const bool descending = view.descending;
    std::ranges::stable_sort(rows, [&](const EventRow& a, const EventRow& b) {
        const EventRow &low = descending ? b : a, &high = descending ? a : b;
        if (const std::string* text = text_of(low, column)) return *text < *text_of(high, column);
        const double x = number_of(a, column), y = number_of(b, column);
        if (std::isnan(x) || std::isnan(y)) return !std::isnan(x) && std::isnan(y);
        return descending ? y < x : x < y;
    });
}

DataTable events_table(std::span<const EventRow> rows) {
    DataTable table{{names.begin(), names.end()}, {}};
    const auto number = [](double value) { return std::isnan(value) ? std::string() : exact_number(value); };
    for (const EventRow& row : rows)
        table.rows.push_back({fmt::format("{}", row.step), row.reason, number(row.value),
                              number(row.threshold), number(row.spliced), number(row.ms), row.token_read,
                              row.chosen_before, row.chosen_after});
    return table;
}

} // namespace refreshlab::ui
