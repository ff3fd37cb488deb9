#pragma once

#include "ui/scene/theme/theme.h"

#include <imgui.h>

namespace refreshlab::ui {

/// A frame that is seen on cells of any colour: in `colour`, with the theme's ground beside it.
void draw_outline(ImDrawList* list, const Theme& theme, ImVec2 min, ImVec2 max, Colour colour,
                  float thickness);

} // namespace refreshlab::ui
