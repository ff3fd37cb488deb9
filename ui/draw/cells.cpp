#include "ui/draw/cells.h"

#include "ui/base/colour.h"

namespace refreshlab::ui {

void draw_outline(ImDrawList* list, const Theme& theme, ImVec2 min, ImVec2 max, Colour colour,
                  float thickness) {
    const Colour halo = with_alpha(theme.plot_background, 0.85F);
    list->AddRect(ImVec2(min.x - 1, min.y - 1), ImVec2(max.x + 1, max.y + 1), halo, 0, thickness + 2);
    list->AddRect(min, max, colour | alpha_mask, 0, thickness);
}

} // namespace refreshlab::ui
