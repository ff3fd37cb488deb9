#include "ui/scene/text/markers.h"

namespace refreshlab::ui {

std::vector<MarkerGroup> merge_markers(std::span<const double> x_px, double closer_than_px,
                                       double widest_px) {
    std::vector<MarkerGroup> groups;
    for (size_t i = 0; i < x_px.size(); ++i) {
        const bool close = !groups.empty() && x_px[i] - groups.back().x_max < closer_than_px;
        if (close && x_px[i] - groups.back().x_min <= widest_px) {
            groups.back().last = i;
            groups.back().x_max = x_px[i];
        } else {
            groups.push_back({i, i, x_px[i], x_px[i]});
        }
    }
    return groups;
}

char group_letter(const MarkerGroup& group, const std::function<char(size_t)>& letter) {
    const char first = letter(group.first);
    for (size_t i = group.first + 1; i <= group.last; ++i)
        if (letter(i) != first) return '+';
    return first;
}

} // namespace refreshlab::ui
