#include "ui/shell/run_bar/strip_fit.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace refreshlab::ui {

std::vector<bool> fit_strip(std::span<const StripPart> parts, float room, float more) {
    std::vector<size_t> order(parts.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, [&](size_t i) { return parts[i].rank; });
    const auto chosen = [&](float left) {
        std::vector<bool> shown(parts.size());
        for (const size_t i : order) {
            shown[i] = parts[i].width <= left;
            if (shown[i]) left -= parts[i].width;
        }
        return shown;
    };
    const std::vector<bool> all = chosen(room);
    return std::ranges::find(all, false) == all.end() ? all : chosen(room - more);
}

} // namespace refreshlab::ui
