#pragma once

#include "engine/base/origin.h"
#include "engine/record/recording/recording.h"
#include "engine/record/runs/run_tree.h"
#include "ui/scene/maps/cache_cells.h"
#include "ui/scene/text/markers.h"
#include "ui/scene/text/step_marks.h"
#include "ui/scene/theme/theme.h"

#include <span>

namespace refreshlab::ui {

// What happened in a run, as colours of a theme.

[[nodiscard]] Colour origin_colour(const Theme& theme, Origin origin); ///< 0 for none

/// Of a column of the cache: here who decodes has one colour, the student or the teacher.
[[nodiscard]] Colour column_colour(const Theme& theme, Origin origin);
/// Of what became of an entry.
[[nodiscard]] CellPalette cell_palette(const Theme& theme);

/// Of keys that the shown model did not read: on no colour map.
[[nodiscard]] Colour unread_colour(const Theme& theme);

/// Of a run that is compared with others, by RunNode::colour.
[[nodiscard]] Colour run_colour(const Theme& theme, uint32_t colour);

/// Of a mark: that of its reasons, paler where a limit held the refresh back; that of faults where a draft was cut; that of what is
/// muted for changes; a note's own.
[[nodiscard]] Colour mark_colour(const Theme& theme, const StepMarks& all, MarkLane lane, size_t index);
/// Of refreshes that a limit prevented, whatever their reasons.
[[nodiscard]] Colour held_back_colour(const Theme& theme);

/// Of a refresh by its reasons.
[[nodiscard]] Colour marker_colour(const Theme& theme, std::span<const TriggerHit> hits);
/// Colour of merged markers: the common one, or that of several reasons.
[[nodiscard]] Colour group_colour(const Theme& theme, const StepMarks& all, const LaneMarks& marks,
                                  const MarkerGroup& group);

} // namespace refreshlab::ui
