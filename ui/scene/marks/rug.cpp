#include "ui/scene/marks/rug.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>

namespace refreshlab::ui {
namespace {

std::string_view first_signal(const RefreshEvent& event) {
    return event.hits.empty() ? std::string_view() : std::string_view(event.hits.front().signal);
}

} // namespace

std::vector<ReasonShare> reason_shares(const Recording& recording, const RefreshMarks& marks,
                                       const MarkerGroup& group) {
    const auto& refreshes = recording.refreshes();
    const auto key = [&](size_t event) {
        return std::tuple(marker_letter(refreshes[event]), first_signal(refreshes[event]));
    };
    std::vector<ReasonShare> shares;
    for (size_t i = group.first; i <= group.last; ++i) {
        const size_t event = marks.events[i];
        const auto found = std::ranges::find_if(
            shares, [&](const ReasonShare& share) { return key(share.event) == key(event); });
        if (found == shares.end())
            shares.push_back({event, 1});
        else
            ++found->count;
    }
    std::ranges::sort(
        shares, [&](const ReasonShare& a, const ReasonShare& b) { return key(a.event) < key(b.event); });
    return shares;
}

std::vector<MarkerGroup> rug_columns(const RefreshMarks& marks, double zero_px, double column_px) {
    std::vector<MarkerGroup> columns;
    for (size_t i = 0; i < marks.x_px.size(); ++i) {
        const double low = zero_px + std::floor((marks.x_px[i] - zero_px) / column_px) * column_px;
        if (columns.empty() || columns.back().x_min != low)
            columns.push_back({i, i, low, low + column_px});
        else
            columns.back().last = i;
    }
    return columns;
}

bool crowded(const RefreshMarks& marks, double width_px, double badge_px) {
    return static_cast<double>(marks.events.size()) * badge_px > width_px;
}

} // namespace refreshlab::ui
