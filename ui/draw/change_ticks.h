#pragma once

#include "ui/context/context.h"
#include "ui/scene/text/tip_place.h"

#include <imgui.h>

namespace refreshlab::ui {

/// A row of steps in a plot or strip, pixels.
struct TickRow {
    float left = 0, right = 0;
    float y = 0;                 ///< where the tips of the ticks stand
    double x_min = 0, x_max = 1; ///< steps at both ends
    bool upward = false;         ///< the ticks point up
};

/// Small ticks where a person changed something while the run went on (threshold, policy, sampling).
/// Ticks that would touch become one.
/// \param hovered  the mouse may ask: a tick under it tells what was changed, at most six changes
/// \param plot     that the tooltip keeps off the middle of
/// \param name     of the landmark: "<name>/change/<index>"
/// \return whether a tooltip was drawn
bool draw_change_ticks(UiContext& ctx, const TickRow& row, bool hovered, const TipBox& plot,
                       const char* name);

} // namespace refreshlab::ui
