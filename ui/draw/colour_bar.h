#pragma once

#include "ui/scene/maps/colour_maps.h"

#include <string_view>

namespace refreshlab::ui {

class TokenColours;

/// Draws a horizontal bar of the scale at the cursor with its end values beside it: "0 [####] 8 bits". One item.
/// \param width   of the bar alone, pixels
/// \param tokens  of the Text panel: the bar then shows what its tokens show, tint and underline; null: the map's colours
void draw_colour_bar(const char* id, const ColourScale& scale, float width, std::string_view unit = {},
                     const TokenColours* tokens = nullptr);

/// The same after what stands in this line already (SameLine() was called): as wide as there is room, `most` pixels at most; in a
/// line of its own where there is too little. Never left out.
/// \param least  room to the right that others still need, pixels
void draw_fitting_colour_bar(const char* id, const ColourScale& scale, float most, std::string_view unit = {},
                             float least = 0);

/// The map as an ImPlot colormap of the current ImPlot context, added on first use (an ImPlotColormap).
[[nodiscard]] int implot_colour_map(std::string_view name);

} // namespace refreshlab::ui
