#pragma once

#include "ui/base/pixel_box.h"

#include <cstdint>
#include <span>
#include <vector>

namespace refreshlab::ui {

// Places of the Attention panel's parts, in pixels. em is the size of the font.

/// Where the grid and the enlarged head are: side by side, or the grid above the head in a narrow panel.
struct AttentionPlaces {
    PixelBox grid, head;
};
/// \param layers, heads  of the grid
[[nodiscard]] AttentionPlaces attention_places(PixelBox room, int64_t layers, int64_t heads, float em);

/// Cells of the grid, one a head: layers down, heads to the right, their names left and below.
struct HeadGrid {
    float x = 0, y = 0;              ///< of the first cell
    float cell_x = 0, cell_y = 0;    ///< size of a cell
    float gap = 0;                   ///< between cells
    float names_x = 0;               ///< of the layers' names
    float under = 0, line_below = 0; ///< y of the heads' names, and of the line below them

    [[nodiscard]] float column(int64_t head) const { return x + static_cast<float>(head) * (cell_x + gap); }
    [[nodiscard]] float row(int64_t layer) const { return y + static_cast<float>(layer) * (cell_y + gap); }
};
[[nodiscard]] HeadGrid head_grid(PixelBox place, int64_t layers, int64_t heads, float em);

/// Cells of ranked heads, row by row from the best, each with its name below.
struct RankedGrid {
    float x = 0, y = 0, cell_x = 0, cell_y = 0, gap = 0;
    float name_height = 0; ///< below each cell
    int64_t columns = 1;

    [[nodiscard]] PixelBox cell(int64_t rank) const {
        return {x + static_cast<float>(rank % columns) * (cell_x + gap),
                y + static_cast<float>(rank / columns) * (cell_y + name_height + gap), cell_x, cell_y};
    }
};
/// As large as `count` cells can be there; not more than twice as wide as high where that wastes nothing.
[[nodiscard]] RankedGrid ranked_grid(PixelBox place, int64_t count, float em);

/// Which of the places first .. last - 1 of an axis are labelled, ascending: the wanted ones as far as they keep apart (the first
/// wins), then whole ticks in between.
/// \param pixels  between two neighbours; apart: least pixels between two labels
[[nodiscard]] std::vector<int64_t> spaced_labels(std::span<const int64_t> wanted, int64_t first, int64_t last,
                                                 float pixels, float apart);

/// Keys 0 .. keys along the pixels of strip and map.
struct KeyAxis {
    float left = 0, right = 1;
    int64_t keys = 1;

    [[nodiscard]] float x(double key) const {
        return left + static_cast<float>(key / static_cast<double>(keys)) * (right - left);
    }
    [[nodiscard]] int pixels() const { return static_cast<int>(right - left); }
    [[nodiscard]] double keys_per_pixel() const {
        return static_cast<double>(keys) / (pixels() > 1 ? pixels() : 1);
    }
    /// Key under a pixel column, a fraction of it included.
    [[nodiscard]] double key_at(float pixel) const {
        return static_cast<double>((pixel - left) / (right - left)) * static_cast<double>(keys);
    }
};

/// One bar of the strip: [x0, x1] pixels, the largest weight of its keys; below 0 = no key.
struct StripBar {
    float x0 = 0, x1 = 0, value = 0;
};
/// A bar a key, or a bar a pixel where keys are narrower than two pixels.
/// \param row  weights, [<= axis.keys]
[[nodiscard]] std::vector<StripBar> strip_bars(std::span<const float> row, const KeyAxis& axis);
/// Largest finite weight of both rows from key `from` on; 0 where there is none.
[[nodiscard]] float strip_top(std::span<const float> upward, std::span<const float> downward, size_t from);
/// The key that a pixel of the strip stands for: where several share it, the one that made the bar.
[[nodiscard]] int64_t strip_key(std::span<const float> row, const KeyAxis& axis, float pixel);

} // namespace refreshlab::ui
