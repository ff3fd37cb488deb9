#pragma once

#include "ui/base/colour.h"
#include "ui/context/landmarks.h"
#include "ui/scene/marks/markers.h"
#include "ui/scene/marks/refresh_marks.h"

#include <imgui.h>

#include <string>
#include <vector>

namespace refreshlab::ui {

/// Markers merged for badges of this height: badges do not cover each other, and each stands for a short part of the
/// axis.
[[nodiscard]] std::vector<MarkerGroup> badge_groups(const RefreshMarks& marks, float badge_height);

/// A small label with a letter or a count, centred; returns its box.
Landmarks::Box draw_badge(ImDrawList* list, ImVec2 centre, float height, Colour colour,
                          const std::string& text);
[[nodiscard]] float badge_width(float height, const std::string& text);

} // namespace refreshlab::ui
