#include "ui/scene/marks/event_table.h"

#include "engine/base/csv_text.h"
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
        return static_cast<double>(row.spliced);
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

EventRow event_row(const Recording& recording, std::span<const Signal> signals, size_t event) {
    const RefreshEvent& refresh = recording.refreshes()[event];
    EventRow row;
    row.event = event;
    row.step = refresh.step;
    row.value = row.threshold = std::numeric_limits<double>::quiet_NaN();
    row.value_text = row.threshold_text = "-";
    for (const TriggerHit& hit : refresh.hits) {
        if (!row.reason.empty()) row.reason += ", ";
        if (hit.trigger < 0 || hit.signal.empty()) {
            row.reason += "by hand";
            continue;
        }
        const auto id = find_signal(signals, hit.signal);
        row.reason += id ? std::string(signals[*id].label) : hit.signal;
        if (!std::isnan(row.value)) continue;
        const std::string_view unit = id ? signals[*id].unit : std::string_view();
        row.value = hit.value;
        row.threshold = hit.threshold;
        row.value_text = format_value(hit.value, unit);
        row.threshold_text = format_value(hit.threshold, unit);
    }
    if (row.reason.empty()) row.reason = "by hand";
    row.spliced = refresh.spliced;
    row.ms = refresh.teacher_ms + refresh.splice_ms + refresh.redraw_ms;
    const TokenTable& tokens = recording.tokens();
    const auto label = [&](int32_t id) {
        return id >= 0 ? token_label(tokens, id, token_chars) : std::string("-");
    };
    row.token_read = label(token_read(recording, recording.steps(), refresh.step));
    row.chosen_before = label(refresh.token_before);
    row.chosen_after = label(refresh.token_after);
    return row;
}

void sort_events(std::vector<EventRow>& rows, EventColumn column, bool descending) {
    std::ranges::stable_sort(rows, [&](const EventRow& a, const EventRow& b) {
        const EventRow &low = descending ? b : a, &high = descending ? a : b;
        if (const std::string* text = text_of(low, column)) return *text < *text_of(high, column);
        const double x = number_of(a, column), y = number_of(b, column);
        if (std::isnan(x) || std::isnan(y)) return !std::isnan(x) && std::isnan(y);
        return descending ? y < x : x < y;
    });
}

std::string events_csv(std::span<const EventRow> rows) {
    std::string csv;
    for (const std::string_view name : names)
        csv.append(csv.empty() ? "" : ",").append(name);
    csv += '\n';
    const auto number = [](double value) { return std::isnan(value) ? std::string() : exact_number(value); };
    for (const EventRow& row : rows)
        csv += fmt::format("{},{},{},{},{},{},{},{},{}\n", row.step, csv_field(row.reason), number(row.value),
                           number(row.threshold), row.spliced, number(row.ms), csv_field(row.token_read),
                           csv_field(row.chosen_before), csv_field(row.chosen_after));
    return csv;
}

} // namespace refreshlab::ui
