// Threshold lines in the plots of the Distribution panel.
#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/panels/distribution/distribution_panel.h"

#include <fmt/format.h>
#include <implot.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {
namespace {

/// The value of a line under the mouse, beside it: hollow until the engine has it, as in Signals.
/// \param at  where the line begins: at the left or the upper edge
void draw_tag(const UiContext& ctx, const Signal& signal, const ThresholdLine& line, ImVec2 at) {
    const ImU32 colour = ctx.theme.tag(ctx.theme.signal(signal.name));
    const std::string text = format_value(line.value, signal.unit);
    const float room = ImGui::GetTextLineHeight() * 0.3F;
    const ImVec2 low = ImPlot::GetPlotPos(), extent = ImPlot::GetPlotSize();
    const ImVec2 size(ImGui::CalcTextSize(text.c_str()).x + 2 * room, ImGui::GetTextLineHeight() + 2);
    const bool right = at.x + 4 + size.x <= low.x + extent.x, below = at.y + 4 + size.y <= low.y + extent.y;
    const ImVec2 a(std::max(low.x, right ? at.x + 4 : at.x - 4 - size.x),
                   std::max(low.y, below ? at.y + 4 : at.y - 4 - size.y)),
        b(a.x + size.x, a.y + size.y);
    ImDrawList* list = ImPlot::GetPlotDrawList();
    list->AddRectFilled(a, b, line.pending ? ctx.theme.plot_background : colour, room);
    if (line.pending) list->AddRect(a, b, colour, room, 1.5F);
    list->AddText({a.x + room, a.y + 1}, line.pending ? ctx.theme.text : ctx.theme.tag_text, text.c_str());
}

} // namespace

/// The thresholds of a signal, to be dragged as in Signals, across the axis `along` which they mean.
/// \return true: the mouse is on one, or holds it
bool DistributionPanel::draw_lines(UiContext& ctx, const Signal& signal, const Lines& lines, ValueAxis& axis,
                                   bool along_x) {
    const ImU32 colour = ctx.theme.signal(signal.name);
    const float scale = std::max(1.0F, ImGui::GetFontSize() / 16);
    const ImVec2 low = ImPlot::GetPlotPos(), extent = ImPlot::GetPlotSize();
    bool any = false;
    double below = 0, above = 0; // a drag beyond the edge widens the range for the next frame
    for (const ThresholdLine& line : lines) {
        const bool is_held = m_drag.key() == line.key;
        if (!std::isfinite(line.value)) continue;
        if ((line.value < axis.min || line.value > axis.max) && !is_held) continue;
        const ImU32 ink = with_alpha(colour, line.enabled ? 1.0F : 0.45F);
        double value = line.value;
        bool clicked = false, hovered = false, held = false;
        const bool no_input = m_drag.holds_another(line);
        const auto drag_line = along_x ? ImPlot::DragLineX : ImPlot::DragLineY;
        drag_line(static_cast<int>(line.trigger), &value, ImGui::ColorConvertU32ToFloat4(ink),
                  (is_held ? 2.2F : 1.6F) * scale,
                  ImPlotDragToolFlags_NoFit | ImPlotDragToolFlags_Delayed |
                      (no_input ? ImPlotDragToolFlags_NoInputs : ImPlotDragToolFlags_None),
                  &clicked, &hovered, &held);
        any |= hovered || held;
        if (!no_input && m_drag.update(ctx, line, held)) {
            const ImVec2 mouse = ImGui::GetMousePos();
            const DragLimits limits = drag_limits(line, signal);
            const bool under = along_x ? mouse.x < low.x : mouse.y > low.y + extent.y,
                       over = along_x ? mouse.x > low.x + extent.x : mouse.y < low.y;
            if (under && axis.min > limits.min) below = 0.02;
            if (over && axis.max < limits.max) above = 0.02;
            m_drag.send(ctx, line,
                        dragged_value(axis, value, static_cast<double>(along_x ? extent.x : extent.y), limits,
                                      signal.unit == "tokens"));
        }
        const ImVec2 at = along_x ? ImVec2(ImPlot::PlotToPixels(line.value, bottom()).x, low.y)
                                  : ImVec2(low.x, ImPlot::PlotToPixels(0.0, line.value).y);
        ctx.landmarks.set(along_x ? Landmarks::Box{at.x - 1, low.y, 2, extent.y}
                                  : Landmarks::Box{low.x, at.y - 1, extent.x, 2},
                          "distribution/threshold/{}", line.trigger);
        if (hovered || held) draw_tag(ctx, signal, line, at);
    }
    axis.widen(below, above);
    return any;
}

} // namespace refreshlab::ui
