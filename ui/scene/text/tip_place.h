#pragma once

namespace refreshlab::ui {

/// A rectangle on the screen, pixels from its upper left corner.
struct TipBox {
    float x = 0, y = 0, width = 0, height = 0;
    [[nodiscard]] float right() const { return x + width; }
    [[nodiscard]] float bottom() const { return y + height; }
};

/// Where a tooltip stands that explains what is under the mouse in a plot: beside the mouse, on the side away from the plot's
/// middle; where the screen ends there, at its edge; and above or below the plot where it would reach the middle from the edge.
/// So it lies over the middle of the plot only where the screen has no other place for it.
/// \param tip  its width and height count
/// \param gap  pixels between the mouse and the tooltip
/// \return `tip` at its place, inside the screen
[[nodiscard]] TipBox tip_place(const TipBox& plot, float mouse_x, float mouse_y, TipBox tip,
                               const TipBox& screen, float gap);

} // namespace refreshlab::ui
