#pragma once

#include "engine/record/tables/data_table.h"
#include "ui/scene/axes/time_view.h"
#include "ui/scene/text/event_choice.h"
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
    /// Labels of the signals that fired, "by hand"; "Entropy, prevented by the budget"; "draft cut: 3 of 8 stay"; "changed by hand:
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
/// In their order: what views, settings, options and files call the columns.
[[nodiscard]] std::span<const std::string_view> event_column_keys();

/// \param steps  of the recording that are shown
[[nodiscard]] EventRow event_row(const Recording& recording, int64_t steps, const StepMarks& marks,
                                 MarkLane lane, size_t index);
/// Of the lanes that are chosen, at steps [first, last], as they are sorted.
[[nodiscard]] std::vector<EventRow> event_rows(const Recording& recording, const StepMarks& marks,
                                               const EventChoice& choice, StepRange range);
/// Rows as a table's view wants them, else by step; equal ones stay as they are, and what has no value comes last in either direction.
void sort_events(std::vector<EventRow>& rows, const TableView& view);
/// The rows as a table, in their order: numbers as exact as they are.
[[nodiscard]] DataTable events_table(std::span<const EventRow> rows);

} // namespace refreshlab::ui
