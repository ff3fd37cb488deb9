#pragma once

#include "ui/scene/maps/colour_maps.h"

#include <string_view>

namespace refreshlab::ui {

/// Draws a horizontal bar of the scale with its end values beside it, "0 [####] 8 bits", after what stands in this line already
/// (SameLine() was called): as wide as there is room, `most` pixels at most; in a line of its own where there is too little. Never
/// left out. One item.
void draw_fitting_colour_bar(const char* id, const ColourScale& scale, float most,
                             std::string_view unit = {});

/// The map as an ImPlot colormap of the current ImPlot context, added on first use (an ImPlotColormap).
[[nodiscard]] int implot_colour_map(std::string_view name);

} // namespace refreshlab::ui
