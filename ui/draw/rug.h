#pragma once

#include "ui/context/context.h"
#include "ui/scene/text/markers.h"
#include "ui/scene/text/step_marks.h"

#include <imgui.h>

#include <optional>

namespace refreshlab::ui {

/// A rug of marks, pixels.
struct RugRow {
    float left = 0, right = 0, top = 0, bottom = 0;
    double x_min = 0, x_max = 1; ///< steps at both ends
};

/// Marks in sight of a row, each a tick in the colour of its reason, a paler one where it was prevented. What falls into one column
/// of a few pixels is a stack of those colours, as high as the column holds many.
void draw_rug(ImDrawList* list, const UiContext& ctx, const LaneMarks& marks, const RugRow& row);
/// The marks of the column under the mouse or right beside it.
[[nodiscard]] std::optional<MarkerGroup> rug_under(const LaneMarks& marks, const RugRow& row, ImVec2 mouse);

} // namespace refreshlab::ui
