#include "ui/scene/attention/attention_geometry.h"

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

AttentionPlaces attention_places(PixelBox room, int64_t num_layers, int64_t num_heads, float em) {
    const auto columns = static_cast<float>(num_heads), rows = static_cast<float>(num_layers);
    const float gap = std::round(em);
    if (room.width >= 1.25F * room.height) {
        const float want = (room.height - 1.4F * em) / rows * columns + 2.0F * em; // square cells
        const float width =
            std::round(std::clamp(want, std::min(room.width * 0.3F, 8 * em), room.width * 0.46F));
        return {{room.x, room.y, width, room.height},
                {room.x + width + gap, room.y, room.width - width - gap, room.height}};
    }
    const float height = std::round(std::min(room.height * 0.45F, room.width / columns * rows + 1.4F * em));
    return {{room.x, room.y, room.width, height},
            {room.x, room.y + height + gap, room.width, room.height - height - gap}};
}

HeadGrid head_grid(PixelBox place, int64_t num_layers, int64_t num_heads, float em) {
    const float left = std::round(1.9F * em), bottom = std::round(1.25F * em);
    const auto heads = static_cast<float>(num_heads), layers = static_cast<float>(num_layers);
    HeadGrid grid;
    grid.gap = std::max(1.0F, std::round(em * 0.2F));
    grid.cell_x = std::max(4.0F, std::floor((place.width - left) / heads) - grid.gap);
    grid.cell_y = std::max(4.0F, std::min(std::floor((place.height - bottom) / layers) - grid.gap,
                                          std::round(grid.cell_x * 1.3F)));
    grid.x = place.x + left;
    grid.y = place.y;
    grid.names_x = place.x;
    grid.under = place.y + layers * (grid.cell_y + grid.gap);
    grid.line_below = grid.under + bottom + em * 0.2F;
    return grid;
}

std::vector<StripBar> strip_bars(std::span<const float> row, const KeyAxis& axis) {
    const auto keys = static_cast<int64_t>(row.size());
    const double per_pixel = axis.keys_per_pixel();
    std::vector<StripBar> bars;
    if (per_pixel < 0.5) {
        for (int64_t k = 0; k < keys; ++k)
            bars.push_back({std::round(axis.x(static_cast<double>(k))),
                            std::round(axis.x(static_cast<double>(k + 1))) - 1, row[static_cast<size_t>(k)]});
        return bars;
    }
    for (int i = 0; i < axis.pixels(); ++i) {
        const auto first = static_cast<int64_t>(static_cast<double>(i) * per_pixel);
        const auto last = std::max(first + 1, static_cast<int64_t>(static_cast<double>(i + 1) * per_pixel));
        float value = -1;
        for (int64_t k = first; k < std::min(last, keys); ++k)
            value = std::max(value, row[static_cast<size_t>(k)]);
        bars.push_back({axis.left + static_cast<float>(i), axis.left + static_cast<float>(i + 1), value});
    }
    return bars;
}

float strip_top(std::span<const float> upward, std::span<const float> downward, size_t from) {
    float top = 0;
    for (const std::span<const float> row : {upward, downward})
        for (size_t k = from; k < row.size(); ++k)
            if (std::isfinite(row[k])) top = std::max(top, row[k]);
    return top;
}

int64_t strip_key(std::span<const float> row, const KeyAxis& axis, float pixel) {
    const double place = axis.key_at(pixel);
    auto key = static_cast<int64_t>(place);
    const auto end =
        std::min(static_cast<int64_t>(place + axis.keys_per_pixel()), static_cast<int64_t>(row.size()));
    for (auto k = key + 1; k < end; ++k)
        if (std::abs(row[static_cast<size_t>(k)]) > std::abs(row[static_cast<size_t>(key)])) key = k;
    return key;
}

} // namespace refreshlab::ui
