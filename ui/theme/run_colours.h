#pragma once

#include "engine/base/origin.h"
#include "engine/record/recording/recording.h"
#include "engine/record/runs/run_tree.h"
#include "ui/scene/marks/markers.h"
#include "ui/scene/marks/refresh_marks.h"
#include "ui/theme/theme.h"

namespace refreshlab::ui {

// What happened in a run, as colours of a theme.

[[nodiscard]] Colour origin_colour(const Theme& theme, Origin origin); ///< 0 for none

/// Of a run that is compared with others, by RunNode::colour.
[[nodiscard]] Colour run_colour(const Theme& theme, uint32_t colour);

[[nodiscard]] Colour marker_colour(const Theme& theme, const RefreshEvent& event);
/// Colour of merged markers: the common one, or that of several reasons.
[[nodiscard]] Colour group_colour(const Theme& theme, const Recording& recording, const RefreshMarks& marks,
                                  const MarkerGroup& group);

} // namespace refreshlab::ui
