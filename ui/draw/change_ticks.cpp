#include "ui/draw/change_ticks.h"

#include "ui/base/value_format.h"
#include "ui/draw/tooltips.h"
#include "ui/scene/text/markers.h"
#include "ui/scene/text/step_marks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {
namespace {

void tell(const StepMarks& all, const LaneMarks& marks, const MarkerGroup& group, const TipBox& plot) {
    if (!begin_plot_tip(plot)) return;
    constexpr size_t most = 6;
    for (size_t i = group.first; i < group.first + std::min(most, group.count()); ++i) {
        const LiveChanges::Change& change = all.change(marks.index[i]);
        ImGui::TextUnformatted(
            fmt::format("From step {}: {}", format_thousands(change.step), change.words).c_str());
    }
    if (group.count() > most) ImGui::TextDisabled("and %zu more here", group.count() - most);
    end_plot_tip();
}

} // namespace

bool draw_change_ticks(UiContext& ctx, const TickRow& row, bool hovered, const TipBox& plot,
                       const char* name) {
    const LaneMarks marks =
        ctx.marks.in_sight(MarkLane::change, row.x_min, row.x_max, static_cast<double>(row.left),
                           static_cast<double>(row.right - row.left));
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float size = std::round(ImGui::GetFontSize() * 0.28F), d = row.upward ? 1.0F : -1.0F;
    const ImVec2 mouse = ImGui::GetMousePos();
    bool told = false;
    for (const MarkerGroup& group : merge_markers(marks.x_px, static_cast<double>(size))) {
        const auto left = std::round(static_cast<float>(group.x_min)),
                   right = std::round(static_cast<float>(group.x_max));
        const ImVec2 shape[] = {{left, row.y},
                                {right, row.y},
                                {right + size * 0.8F, row.y + d * size * 1.3F},
                                {left - size * 0.8F, row.y + d * size * 1.3F}};
        list->AddConvexPolyFilled(shape, 4, ctx.theme.text_muted);
        const ImVec2 low(left - size, std::min(row.y, row.y + d * size * 1.3F)),
            high(right + size, std::max(row.y, row.y + d * size * 1.3F));
        ctx.landmarks.set({low.x, low.y, high.x - low.x, high.y - low.y}, "{}/change/{}", name,
                          marks.index[group.first]);
        if (!hovered || told || mouse.x < low.x || mouse.x > high.x || mouse.y < low.y - 2 ||
            mouse.y > high.y + 2)
            continue;
        tell(ctx.marks, marks, group, plot);
        told = true;
    }
    return told;
}

} // namespace refreshlab::ui
