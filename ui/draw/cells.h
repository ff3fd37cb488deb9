#pragma once

#include "ui/theme/theme.h"

#include <imgui.h>

namespace refreshlab::ui {

/// A frame or a line that is seen on cells of any colour: in `colour`, with the theme's ground beside it.
void draw_outline(ImDrawList* list, const Theme& theme, ImVec2 min, ImVec2 max, Colour colour,
                  float thickness);
void draw_marked_line(ImDrawList* list, const Theme& theme, ImVec2 from, ImVec2 to, Colour colour);

/// An image with sharp cells. (ImGui's renderer binds a linear sampler of its own unless told otherwise.)
void draw_cells(ImDrawList* list, ImTextureID texture, ImVec2 min, ImVec2 max, ImVec2 uv_min = ImVec2(0, 0),
                ImVec2 uv_max = ImVec2(1, 1));

/// For images that follow: sharp cells, and as everything else is drawn.
void sample_nearest(ImDrawList* list);
void sample_linear(ImDrawList* list);

} // namespace refreshlab::ui
