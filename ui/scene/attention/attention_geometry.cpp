#include "ui/scene/attention/attention_geometry.h"

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

AttentionPlaces attention_places(PixelBox room, int64_t num_layers, int64_t num_heads, float em) {
    const auto columns = static_cast<float>(num_heads), rows = static_cast<float>(num_layers);
    const float gap = std::round(em);
    if (room.width >= 1.25F * room.height) {
        // Cells may be twice as wide as high: many layers leave little height, and keys are more than queries.
        const float want = (room.height - 1.4F * em) / rows * 2.0F * columns + 2.0F * em;
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

RankedGrid ranked_grid(PixelBox place, int64_t count, float em) {
    RankedGrid best;
    count = std::max<int64_t>(count, 1);
    float best_area = -1;
    for (int64_t columns = 1; columns <= count; ++columns) {
        RankedGrid grid;
        grid.gap = std::max(1.0F, std::round(em * 0.3F));
        grid.name_height = std::round(1.1F * em);
        grid.columns = columns;
        const auto rows = static_cast<float>((count + columns - 1) / columns);
        const float width = std::floor(place.width / static_cast<float>(columns)) - grid.gap,
                    height = std::floor(place.height / rows) - grid.gap - grid.name_height;
        grid.cell_x = std::max(4.0F, width);
        grid.cell_y = std::max(4.0F, std::min(height, 1.3F * grid.cell_x));
        // What is wider than twice its height counts as if it were not.
        const float area = std::min(width, 2 * height) * std::min(height, 1.3F * width);
        if (width < 4 || height < 4 || area <= best_area) {
            if (best_area >= 0 || columns < count) continue;
        }
        best_area = area;
        best = grid;
    }
    best.x = place.x;
    best.y = place.y;
    return best;
}

std::vector<int64_t> spaced_labels(std::span<const int64_t> wanted, int64_t first, int64_t last, float pixels,
                                   float apart) {
    std::vector<int64_t> places;
    if (!(pixels > 0) || last <= first) return places;
    const auto take = [&](int64_t place) {
        const bool free = std::ranges::all_of(places, [&](int64_t other) {
            return static_cast<float>(std::abs(other - place)) * pixels >= apart;
        });
        if (place >= first && place < last && free) places.push_back(place);
    };
    for (const int64_t place : wanted)
        take(place);
    const auto stride = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(apart / pixels)));
    for (int64_t place = (first + stride - 1) / stride * stride; place < last; place += stride)
        take(place);
    std::ranges::sort(places);
    return places;
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
