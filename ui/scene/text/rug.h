#pragma once

#include "ui/scene/text/markers.h"
#include "ui/scene/text/step_marks.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace refreshlab::ui {

/// Marks of one reason among others.
struct ReasonShare {
    size_t index = 0; ///< one of them, in its lane: it has letter, signal and colour of all
    int64_t count = 0;
};
/// The reasons of a group and how many marks each has: in the order of their letters, then of their signals, so that colours
/// lie in the same order in every group.
[[nodiscard]] std::vector<ReasonShare> reason_shares(const StepMarks& all, const LaneMarks& marks,
                                                     const MarkerGroup& group);

/// Marks in columns of `column_px` pixels that begin at whole columns from step 0 on, so that a view that moves does not shimmer.
/// Empty columns are left out; x_min and x_max are the borders of a column.
/// \param zero_px  pixel of step 0
[[nodiscard]] std::vector<MarkerGroup> rug_columns(const LaneMarks& marks, double zero_px, double column_px);

/// A run with so many has a rug above its plots.
inline constexpr size_t many_refreshes = 20;

/// So many marks that lines through the plots would hide the curves: nearer to each other than a badge, on the average.
/// \param width_px  of the plot; badge_px: of one badge
[[nodiscard]] bool crowded(const LaneMarks& marks, double width_px, double badge_px);

} // namespace refreshlab::ui
