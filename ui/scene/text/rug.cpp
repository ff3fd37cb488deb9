#include "ui/scene/text/rug.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <tuple>

namespace refreshlab::ui {
namespace {

std::string_view first_signal(std::span<const TriggerHit> hits) {
    return hits.empty() ? std::string_view() : std::string_view(hits.front().signal);
}

} // namespace

std::vector<ReasonShare> reason_shares(const StepMarks& all, const LaneMarks& marks,
                                       const MarkerGroup& group) {
    const auto key = [&](size_t index) {
        const auto hits = all.hits(marks.lane, index);
        const uint32_t colour = marks.lane == MarkLane::note ? all.note(index).note.colour : 0;
        return std::tuple(reason_letter(hits), first_signal(hits), colour);
    };
    std::vector<ReasonShare> shares;
    for (size_t i = group.first; i <= group.last; ++i) {
        const size_t index = marks.index[i];
        const auto found = std::ranges::find_if(
            shares, [&](const ReasonShare& share) { return key(share.index) == key(index); });
        if (found == shares.end())
            shares.push_back({index, 1});
        else
            ++found->count;
    }
    std::ranges::sort(
        shares, [&](const ReasonShare& a, const ReasonShare& b) { return key(a.index) < key(b.index); });
    return shares;
}

std::vector<MarkerGroup> rug_columns(const LaneMarks& marks, double zero_px, double column_px) {
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

bool crowded(const LaneMarks& marks, double width_px, double badge_px) {
    return static_cast<double>(marks.index.size()) * badge_px > width_px;
}

} // namespace refreshlab::ui
