#include "ui/tour/bubble_place.h"

#include <algorithm>
#include <array>

namespace refreshlab::ui {

namespace {

bool is_inside(const PixelBox& box, const PixelBox& window) {
    return box.x >= window.x && box.y >= window.y && box.x + box.width <= window.x + window.width &&
           box.y + box.height <= window.y + window.height;
}

/// A length at `at`, moved so that it lies within [low, high].
float within(float at, float length, float low, float high) {
    return std::max(low, std::min(at, high - length));
}

} // namespace

float overlap(const PixelBox& a, const PixelBox& b) {
    const float width = std::min(a.x + a.width, b.x + b.width) - std::max(a.x, b.x);
    const float height = std::min(a.y + a.height, b.y + b.height) - std::max(a.y, b.y);
    return width > 0 && height > 0 ? width * height : 0;
}

PixelBox place_bubble(const std::optional<PixelBox>& anchor, float width, float height,
                      const PixelBox& window, float gap, const std::optional<PixelBox>& keep_off,
                      const std::optional<PixelBox>& now) {
    const float left = window.x + gap, right = window.x + window.width - gap;
    const float top = window.y + gap, bottom = window.y + window.height - gap;
    const PixelBox last{right - width, bottom - height, width, height};
    const auto will_do = [&](const PixelBox& box) {
        return is_inside(box, window) && (!anchor || overlap(box, *anchor) == 0) &&
               (!keep_off || overlap(box, *keep_off) == 0);
    };
    if (now && now->width == width && now->height == height && will_do(*now)) return *now;
    const std::array corners = {last, PixelBox{right - width, top, width, height},
                                PixelBox{left, bottom - height, width, height},
                                PixelBox{left, top, width, height}};
    const auto covered = [&](const PixelBox& box) {
        return (anchor ? overlap(box, *anchor) : 0) + (keep_off ? overlap(box, *keep_off) : 0);
    };
    const PixelBox& corner = *std::ranges::min_element(corners, {}, covered);
    if (!anchor) return corner;
    const float beside = within(anchor->y + anchor->height / 2 - height / 2, height, top, bottom);
    const float along = within(anchor->x + anchor->width / 2 - width / 2, width, left, right);
    const std::array places = {PixelBox{anchor->x + anchor->width + gap, beside, width, height},
                               PixelBox{along, anchor->y + anchor->height + gap, width, height},
                               PixelBox{along, anchor->y - gap - height, width, height},
                               PixelBox{anchor->x - gap - width, beside, width, height}};
    for (const PixelBox& place : places)
        if (will_do(place)) return place;
    // Rather over the dialog than over what it speaks of.
    for (const PixelBox& place : places)
        if (is_inside(place, window) && overlap(place, *anchor) == 0) return place;
    return corner;
}

} // namespace refreshlab::ui
