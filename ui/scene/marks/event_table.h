#pragma once

#include "engine/record/recording/recording.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// One refresh as a row of a table.
struct EventRow {
    size_t event = 0; ///< index into Recording::refreshes()
    int64_t step = 0;
    std::string reason;                      ///< labels of the signals that fired, "by hand"
    double value = 0, threshold = 0;         ///< of the first trigger; NaN by hand
    std::string value_text, threshold_text;  ///< with their unit; "-" by hand
    int64_t spliced = 0;                     ///< cache entries
    double ms = 0;                           ///< teacher's pass, splice and redraw together
    std::string token_read;                  ///< at that step
    std::string chosen_before, chosen_after; ///< the token chosen next, before and after the refresh
};

enum class EventColumn : uint8_t { step, reason, value, threshold, spliced, ms, token_read, before, after };
inline constexpr size_t num_event_columns = 9;
[[nodiscard]] std::string_view event_column_name(EventColumn column); ///< "Time (ms)"

/// \param signals  the run's table: labels and units come from it
[[nodiscard]] EventRow event_row(const Recording& recording, std::span<const Signal> signals, size_t event);
/// Rows in another order; equal ones stay as they are, and what has no value comes last in either direction.
void sort_events(std::vector<EventRow>& rows, EventColumn column, bool descending);
/// The rows as CSV, in their order, with a header: numbers as exact as they are, texts in quotes where they need them.
[[nodiscard]] std::string events_csv(std::span<const EventRow> rows);

} // namespace refreshlab::ui
