#pragma once

#include "ui/base/colour.h"
#include "ui/context/context.h"
#include "ui/context/landmarks.h"
#include "ui/scene/text/markers.h"
#include "ui/scene/text/step_marks.h"

#include <imgui.h>

#include <string>
#include <vector>

namespace refreshlab::ui {

/// Markers merged for badges of this height: badges do not cover each other, and each stands for a short part of the
/// axis.
[[nodiscard]] std::vector<MarkerGroup> badge_groups(const LaneMarks& marks, float badge_height);

/// A small label with a letter or a count, centred, in the theme's one colour of tags' words; returns its box.
Landmarks::Box draw_badge(ImDrawList* list, const Theme& theme, ImVec2 centre, float height, Colour colour,
                          const std::string& text);
/// The letter of a refresh's reasons in their colour; of one that was prevented, and of a draft that was cut (x), only the outline.
/// \param lane  no change
void draw_mark_badge(ImDrawList* list, const UiContext& ctx, ImVec2 centre, float height, MarkLane lane,
                     size_t index);
/// The label of a group: of one reason as above; of several on a card, with their colours side by side along its foot, as wide as
/// they are many.
Landmarks::Box draw_group_badge(ImDrawList* list, const UiContext& ctx, ImVec2 centre, float height,
                                const LaneMarks& marks, const MarkerGroup& group);
[[nodiscard]] float badge_width(float height, const std::string& text);

} // namespace refreshlab::ui
