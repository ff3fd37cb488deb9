#pragma once

namespace refreshlab::ui {

/// A place in the window, pixels from its upper left corner.
struct PixelBox {
    float x = 0, y = 0, width = 0, height = 0;
};

} // namespace refreshlab::ui
