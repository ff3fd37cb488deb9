#include "ui/draw/cells.h"

#include "ui/base/colour.h"

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

void draw_outline(ImDrawList* list, const Theme& theme, ImVec2 min, ImVec2 max, Colour colour,
                  float thickness) {
    const Colour halo = with_alpha(theme.plot_background, 0.85F);
    list->AddRect(ImVec2(min.x - 1, min.y - 1), ImVec2(max.x + 1, max.y + 1), halo, 0, thickness + 2);
    list->AddRect(min, max, colour | alpha_mask, 0, thickness);
}

void draw_marked_line(ImDrawList* list, const Theme& theme, ImVec2 from, ImVec2 to, Colour colour) {
    list->AddLine(from, to, with_alpha(theme.plot_background, 0.7F), 3);
    list->AddLine(from, to, colour | alpha_mask, 1);
}

void sample_nearest(ImDrawList* list) {
    const ImDrawCallback callback = ImGui::GetPlatformIO().DrawCallback_SetSamplerNearest;
    if (callback != nullptr) list->AddCallback(callback, nullptr);
}
void sample_linear(ImDrawList* list) {
    const ImDrawCallback callback = ImGui::GetPlatformIO().DrawCallback_SetSamplerLinear;
    if (callback != nullptr) list->AddCallback(callback, nullptr);
}

void draw_cells(ImDrawList* list, ImTextureID texture, ImVec2 min, ImVec2 max, ImVec2 uv_min, ImVec2 uv_max) {
    sample_nearest(list);
    list->AddImage(texture, min, max, uv_min, uv_max);
    sample_linear(list);
}

} // namespace refreshlab::ui
