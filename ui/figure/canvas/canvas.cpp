#include "ui/figure/canvas/canvas.h"

#include <algorithm>

namespace refreshlab::ui {

FigureImage FigureImage::touched(std::vector<uint32_t>& cells) const {
    if (whole() || width <= 0 || height <= 0) return *this;
    const auto first = [](double share, int64_t size) {
        return std::clamp<int64_t>(static_cast<int64_t>(std::floor(share * static_cast<double>(size))), 0,
                                   size - 1);
    };
    const auto last = [](double share, int64_t size) {
        constexpr double slack = 1e-9; // an end that is a whole cell but for rounding touches no more
        return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(share * static_cast<double>(size) - slack)),
                                   1, size);
    };
    const int64_t x0 = first(part.x, width), x1 = std::max(x0 + 1, last(part.x + part.width, width));
    const int64_t y0 = first(part.y, height), y1 = std::max(y0 + 1, last(part.y + part.height, height));
    cells.clear();
    for (int64_t y = y0; y < y1; ++y) {
        const auto row = rgba.begin() + y * width;
        cells.insert(cells.end(), row + x0, row + x1);
    }
    const auto wide = static_cast<double>(width) / static_cast<double>(x1 - x0),
               high = static_cast<double>(height) / static_cast<double>(y1 - y0);
    FigureImage image = *this;
    image.width = x1 - x0;
    image.height = y1 - y0;
    image.rgba = cells;
    image.part = {(part.x - static_cast<double>(x0) / static_cast<double>(width)) * wide,
                  (part.y - static_cast<double>(y0) / static_cast<double>(height)) * high, part.width * wide,
                  part.height * high};
    // What is the whole is said to be.
    const auto is = [](double value, double wanted) { return std::abs(value - wanted) < 1e-9; };
    if (is(image.part.x, 0) && is(image.part.y, 0) && is(image.part.width, 1) && is(image.part.height, 1))
        image.part = {0, 0, 1, 1};
    return image;
}

} // namespace refreshlab::ui
