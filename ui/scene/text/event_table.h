#pragma once

#include "ui/scene/text/step_marks.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// One mark of a run as a row of a table.
struct EventRow {
    MarkLane lane = MarkLane::refresh;
    size_t index = 0; ///< in its lane
    int64_t step = 0;
    /// Labels of the signals that fired, "by hand"; "Entropy, held back by the budget"; "draft cut: 3 of 8 stay"; "changed by hand:
    /// Entropy threshold: 5 bits"; "note: loses the names".
    std::string reason;
    /// Of the first trigger; of a cut the teacher's and the student's probability of the token that went; NaN where there is none.
    double value = 0, threshold = 0;
    std::string value_text, threshold_text; ///< with their unit; "-" where there is none
    double spliced = 0;                     ///< cache entries; NaN where it is no refresh
    double ms = 0;                          ///< teacher's pass, splice and redraw together; NaN as above
    std::string token_read;                 ///< at that step; "-" of a change for a step that is not made yet
    std::string chosen_before,
        chosen_after; ///< the token chosen next, before and after a refresh; the same where there was none
};

enum class EventColumn : uint8_t { step, reason, value, threshold, spliced, ms, token_read, before, after };
inline constexpr size_t num_event_columns = 9;
[[nodiscard]] std::string_view event_column_name(EventColumn column); ///< "Time (ms)"

/// \param steps  of the recording that are shown
[[nodiscard]] EventRow event_row(const Recording& recording, int64_t steps, const StepMarks& marks,
                                 MarkLane lane, size_t index);
/// Rows in another order; equal ones stay as they are, and what has no value comes last in either direction.
void sort_events(std::vector<EventRow>& rows, EventColumn column, bool descending);
/// The rows as CSV, in their order, with a header: numbers as exact as they are, texts in quotes where they need them.
[[nodiscard]] std::string events_csv(std::span<const EventRow> rows);

} // namespace refreshlab::ui
