#include "ui/scene/axes/plot_stack.h"

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

StackHeights stack_heights(std::span<const bool> has_data, bool may_fold, float room, float header,
                           float em) {
    constexpr float full_weight = 1.0F, empty_weight = 0.6F; // of plots with and without a value
    const float readable = header + em * 2.8F;
    const bool tight = room < readable * static_cast<float>(has_data.size());
    const float least = tight ? header + em * 2.2F : readable;
    const auto folded = [&](size_t plot) { return tight && may_fold && !has_data[plot]; };
    const auto weight_of = [&](size_t plot) { return has_data[plot] ? full_weight : empty_weight; };
    StackHeights heights;
    float count = 0, weights = 0;
    for (size_t plot = 0; plot < has_data.size(); ++plot) {
        if (folded(plot)) {
            room -= header;
            continue;
        }
        heights.lowest = static_cast<int>(plot);
        weights += weight_of(plot);
        count += 1;
    }
    float unit = weights > 0 ? std::max(0.0F, room) / weights : 0;
    float small = 0;
    for (size_t plot = 0; plot < has_data.size(); ++plot)
        if (!folded(plot) && unit * weight_of(plot) < least) {
            room -= least;
            weights -= weight_of(plot);
            small += 1;
        }
    if (small > 0 && small < count) unit = std::max(0.0F, room) / weights;
    for (size_t plot = 0; plot < has_data.size(); ++plot)
        heights.plots.push_back(folded(plot) ? 0.0F : std::max(least, std::floor(unit * weight_of(plot))));
    return heights;
}

} // namespace refreshlab::ui
