#include "ui/scene/text/tip_place.h"

#include <algorithm>

namespace refreshlab::ui {
namespace {

float within(float at, float size, float low, float high) {
    return std::max(low, std::min(at, high - size));
}

} // namespace

TipBox tip_place(const TipBox& plot, float mouse_x, float mouse_y, TipBox tip, const TipBox& screen,
                 float gap) {
    const float middle = plot.x + plot.width / 2;
    const bool leftward = mouse_x < middle;
    const float wanted = leftward ? mouse_x - gap - tip.width : mouse_x + gap;
    tip.x = within(wanted, tip.width, screen.x, screen.right());
    tip.y = within(mouse_y + gap, tip.height, screen.y, screen.bottom());
    const bool over_mouse = tip.x <= mouse_x && mouse_x < tip.right() && tip.y <= mouse_y;
    const bool over_middle = tip.x < middle && middle < tip.right();
    if (!over_mouse && !over_middle) return tip;
    // No room on this side.
    if (plot.y - gap - tip.height >= screen.y)
        tip.y = plot.y - gap - tip.height;
    else if (plot.bottom() + gap + tip.height <= screen.bottom())
        tip.y = plot.bottom() + gap;
    return tip;
}

} // namespace refreshlab::ui
