#include "ui/draw/change_ticks.h"

#include "ui/base/value_format.h"
#include "ui/draw/tooltips.h"
#include "ui/scene/marks/markers.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

namespace refreshlab::ui {
namespace {

void tell(std::span<const LiveChanges::Change> changes, const TipBox& plot) {
    if (!begin_plot_tip(plot)) return;
    constexpr size_t most = 6;
    for (size_t i = 0; i < std::min(most, changes.size()); ++i)
        ImGui::TextUnformatted(
            fmt::format("From step {}: {}", format_thousands(changes[i].step), changes[i].words).c_str());
    if (changes.size() > most) ImGui::TextDisabled("and %zu more here", changes.size() - most);
    end_plot_tip();
}

} // namespace

bool draw_change_ticks(UiContext& ctx, const TickRow& row, bool hovered, const TipBox& plot,
                       const char* name) {
    const auto changes = ctx.changes.all();
    if (changes.empty()) return false;
    std::vector<double> x_px;
    std::vector<size_t> which;
    for (size_t i = 0; i < changes.size(); ++i) {
        // Between the step before and the first one that felt it.
        const double at = static_cast<double>(changes[i].step) - 0.5;
        if (at < row.x_min || at > row.x_max) continue;
        x_px.push_back(static_cast<double>(row.x(at)));
        which.push_back(i);
    }
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float size = std::round(ImGui::GetFontSize() * 0.28F), d = row.upward ? 1.0F : -1.0F;
    const ImVec2 mouse = ImGui::GetMousePos();
    bool told = false;
    for (const MarkerGroup& group : merge_markers(x_px, static_cast<double>(size))) {
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
                          which[group.first]);
        if (!hovered || told || mouse.x < low.x || mouse.x > high.x || mouse.y < low.y - 2 ||
            mouse.y > high.y + 2)
            continue;
        tell(changes.subspan(which[group.first], which[group.last] - which[group.first] + 1), plot);
        told = true;
    }
    return told;
}

} // namespace refreshlab::ui
