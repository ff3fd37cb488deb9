#pragma once

#include "ui/base/pixel_box.h"

#include <optional>

namespace refreshlab::ui {

/// Where a bubble of this size stands: beside what it speaks of and never over it, whole within the window. To the right of it, below,
/// above, to the left, in the first of these places where there is room; else in the corner of the window where it covers least of it.
/// Without an anchor it is in the lower right corner. Where it stands already it stays, as long as that will do.
/// \param keep_off  what it should not cover either: an open dialog
/// \param gap  pixels between the two, and to the border
[[nodiscard]] PixelBox place_bubble(const std::optional<PixelBox>& anchor, float width, float height,
                                    const PixelBox& window, float gap,
                                    const std::optional<PixelBox>& keep_off = {},
                                    const std::optional<PixelBox>& now = {});

/// Area in which two boxes overlap, pixels.
[[nodiscard]] float overlap(const PixelBox& a, const PixelBox& b);

} // namespace refreshlab::ui
