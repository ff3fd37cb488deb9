#include "ui/draw/badge.h"

#include "ui/base/colour.h"
#include "ui/scene/marks/refresh_marks.h"

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

float badge_width(float height, const std::string& text) {
    const float size = height * 0.82F;
    return std::max(height, ImGui::GetFont()->CalcTextSizeA(size, 1e6F, 0, text.c_str()).x + height * 0.5F);
}

std::vector<MarkerGroup> badge_groups(const RefreshMarks& marks, float badge_height) {
    // The last group of a crowd may be one marker: half its badge and half of a wide one must fit between their middles.
    const double height = static_cast<double>(badge_height),
                 wide = static_cast<double>(badge_width(badge_height, "M 000"));
    return merge_markers(marks.x_px, height + 2, 2 * wide);
}

Landmarks::Box draw_badge(ImDrawList* list, ImVec2 centre, float height, Colour colour,
                          const std::string& text) {
    const float width = badge_width(height, text), size = height * 0.82F;
    const ImVec2 min(std::round(centre.x - width / 2), std::round(centre.y - height / 2));
    list->AddRectFilled(min, {min.x + width, min.y + height}, colour, height * 0.22F);
    const ImVec2 extent = ImGui::GetFont()->CalcTextSizeA(size, 1e6F, 0, text.c_str());
    list->AddText(ImGui::GetFont(), size, {min.x + (width - extent.x) / 2, min.y + (height - extent.y) / 2},
                  readable_on(colour | alpha_mask), text.c_str());
    return {min.x, min.y, width, height};
}

} // namespace refreshlab::ui
