// The threshold lines of a plot: drawn, dragged, their tags left of the plot, and what a moved one would have done.
#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/plot/signal_plot.h"
#include "ui/draw/widgets.h"

#include <fmt/format.h>
#include <implot.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <vector>

namespace refreshlab::ui {
namespace {

// Size of a threshold's tag left of the plot: text and room around it, then the arrow.
float tag_width(double value) {
    return ImGui::CalcTextSize(format_number(value).c_str()).x + 8;
}
float tag_half_height() {
    return ImGui::GetTextLineHeight() / 2 + 1;
}
float tag_arrow() {
    return tag_half_height() * 0.7F;
}

} // namespace

float threshold_tag_width(double value) {
    return tag_width(value) + tag_arrow();
}

/// Where a threshold's tag stands: its value, or the end of the axis beyond which that lies.
float SignalPlot::tag_y(const ThresholdLine& line) const {
    const bool above = line.value > m_axis.max, below = line.value < m_axis.min;
    const double share = std::clamp(m_axis.share(line.value), 0.0, 1.0);
    const float y = m_box.y + static_cast<float>(1 - share) * m_box.height, half = tag_half_height();
    return std::round(
        std::clamp(y, m_box.y + (above ? half : 0), m_box.y + m_box.height - (below ? half : 0)));
}

/// Beside the axis that the signal has.
float SignalPlot::tag_left(float width) const {
    return m_on_right ? m_box.x + m_box.width + 1 : m_box.x - 1 - width;
}

/// A tag is a handle of its line. Before the plot, whose labels would else take the mouse.
void SignalPlot::hold_tags(UiContext& ctx, const PlotStack& stack, const Lines& lines) {
    const size_t held_before = m_tag_held;
    m_tag_held = m_tag_hovered = none;
    const ImVec2 cursor = ImGui::GetCursorScreenPos();
    ImGui::PushItemFlag(ImGuiItemFlags_NoNav, true);
    for (size_t i = 0; i < lines.size(); ++i) {
        const ThresholdLine& line = lines[i];
        if (m_locked || m_box_from || m_box.width <= 0 || stack.drag.holds_another(line) ||
            !std::isfinite(line.value))
            continue;
        const float width = threshold_tag_width(line.value), half = tag_half_height(), y = tag_y(line);
        ImGui::SetCursorScreenPos({tag_left(width), y - half});
        ImGui::PushID(static_cast<int>(i));
        ImGui::InvisibleButton("##tag", {width, 2 * half});
        ImGui::PopID();
        ctx.landmarks.set({tag_left(width), y - half, width, 2 * half}, "signals/tag/{}", line.key);
        if (ImGui::IsItemHovered() || ImGui::IsItemActive()) {
            m_tag_hovered = i;
            ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeNS);
        }
        if (!ImGui::IsItemActive()) continue;
        m_tag_held = i;
        if (held_before != i) m_tag_grip = ImGui::GetMousePos().y - y;
    }
    ImGui::PopItemFlag();
    ImGui::SetCursorScreenPos(cursor);
}

void SignalPlot::draw_thresholds(UiContext& ctx, PlotStack& stack, const Lines& lines) {
    m_held = m_on_line = false;
    m_wheel = 0;
    for (size_t i = 0; i < lines.size(); ++i) {
        const ThresholdLine& line = lines[i];
        const bool is_held = stack.drag.key() == line.key;
        if (m_tag_hovered == i) stack.pressed_on_line = m_on_line = true;
        if (m_tag_held == i) {
            m_held = true;
            const ImVec2 mouse = ImGui::GetMousePos();
            drag_threshold(ctx, stack, line, ImPlot::PixelsToPlot({mouse.x, mouse.y - m_tag_grip}).y, true);
        }
        // Where the axis has no place for it the tag alone stays.
        if (!m_axis.has_place(line.value)) continue;
        if ((line.value < m_axis.min || line.value > m_axis.max) && !is_held) continue;
        const float scale = std::max(1.0F, ImGui::GetFontSize() / 16);
        const Colour colour = with_alpha(ctx.theme.signal(info().name), line.enabled ? 1.0F : 0.45F);
        // Where it stood elsewhere before, its present value is a line from now on, and a faint guide over the past.
        const bool moved = draw_stair(ctx, line, colour) && !is_held;
        double y = line.value;
        const bool no_input =
            m_locked || m_tag_held != none || stack.drag.holds_another(line) || m_box_from.has_value();
        bool clicked = false, hovered = false, held = false;
        constexpr int right_ids = 1000; // apart from those of the axis on the left
        ImPlot::DragLineY(static_cast<int>(i) + (m_on_right ? right_ids : 0), &y,
                          ImGui::ColorConvertU32ToFloat4(moved ? with_alpha(colour, 0.28F) : colour),
                          (is_held ? 2.0F : 1.4F) * scale,
                          ImPlotDragToolFlags_NoFit | ImPlotDragToolFlags_Delayed |
                              (no_input ? ImPlotDragToolFlags_NoInputs : ImPlotDragToolFlags_None),
                          &clicked, &hovered, &held);
        if (hovered || held) stack.pressed_on_line = true;
        m_on_line |= hovered;
        if (hovered && !held) m_wheel = ImGui::GetIO().MouseWheel;
        if (!no_input) drag_threshold(ctx, stack, line, y, held);
        m_held |= held;
        const float y_px = ImPlot::PlotToPixels(0.0, line.value).y;
        ctx.landmarks.set({m_box.x, y_px - 4, m_box.width, 8}, "signals/threshold/{}{}", info().name,
                          i == 0 ? std::string() : fmt::format("/{}", i));
        if (moved) draw_present(ctx, y_px, colour, 1.4F * scale);
        if (asks_what_if(ctx, line)) draw_prediction(ctx, stack, line);
    }
    if (!lines.empty()) return;
    // The present policy has no such trigger; a run that is looked at, the one before or a file's, may have had one.
    ThresholdLine past;
    past.value = std::numeric_limits<double>::quiet_NaN();
    static_cast<void>(draw_stair(ctx, past, with_alpha(ctx.theme.signal(info().name), 0.45F)));
}

/// What the threshold was when each step ran: a stair under its present line.
/// \return false where it has always been what it is now
bool SignalPlot::draw_stair(UiContext& ctx, const ThresholdLine& line, Colour colour) {
    if (!ctx.recording || ctx.steps == 0) return false;
    const auto stair = m_stair.of(ctx.marks.changes(), ctx.steps, info().name, m_pick);
    const bool same = stair.size() == 1 && stair[0].first == 1 && stair[0].value == line.value;
    if (stair.empty() || same) return false;
    ImPlot::PushPlotClipRect();
    ImDrawList* list = ImPlot::GetPlotDrawList();
    const Colour ink = with_alpha(colour, 0.8F);
    const auto place = [](double step, double value) { return ImPlot::PlotToPixels(step, value); };
    const auto in_sight = std::ranges::lower_bound(stair, ctx.time.x_min, {}, [](const ThresholdSpan& span) {
        return static_cast<double>(span.last) + 0.5;
    });
    for (auto span = in_sight; span != stair.end(); ++span) {
        const double first = static_cast<double>(span->first) - 0.5,
                     last = static_cast<double>(span->last) + 0.5;
        if (first > ctx.time.x_max) break;
        if (!m_axis.has_place(span->value)) continue;
        list->AddLine(place(first, span->value), place(last, span->value), ink, 1.2F);
        const auto before = span == stair.begin() ? stair.end() : std::prev(span);
        if (before != stair.end() && before->last + 1 == span->first && m_axis.has_place(before->value))
            list->AddLine(place(first, before->value), place(first, span->value), with_alpha(ink, 0.5F));
    }
    ImPlot::PopPlotClipRect();
    const ImVec2 corner = place(static_cast<double>(stair.front().first), stair.front().value);
    ctx.landmarks.set({corner.x, corner.y - 2, 4, 4}, "signals/stair/{}", info().name);
    return true;
}

/// The present value, from the newest step on.
void SignalPlot::draw_present(const UiContext& ctx, float y, Colour colour, float thickness) {
    const float now = ImPlot::PlotToPixels(static_cast<double>(ctx.steps) + 0.5, 0.0).x,
                right = m_box.x + m_box.width;
    ImPlot::PushPlotClipRect();
    // At least a stub, where the newest step stands at the edge.
    ImPlot::GetPlotDrawList()->AddLine({std::min(now, right - ImGui::GetFontSize()), y}, {right, y}, colour,
                                       thickness);
    ImPlot::PopPlotClipRect();
}

void SignalPlot::drag_threshold(UiContext& ctx, PlotStack& stack, const ThresholdLine& line, double y,
                                bool held) {
    if (!stack.drag.update(ctx, line, held)) return;
    // Beyond the edge the range grows under the mouse, so that every value can be reached.
    const float mouse = ImGui::GetMousePos().y;
    const DragLimits limits = drag_limits(line, info());
    if (mouse < m_box.y && m_axis.max < limits.max) m_grow_up = 0.02;
    if (mouse > m_box.y + m_box.height && m_axis.min > limits.min) m_grow_down = 0.02;
    const double height = static_cast<double>(m_box.height);
    stack.drag.send(ctx, line, dragged_value(m_axis, y, height, limits, info().unit == "tokens"));
}

void SignalPlot::draw_prediction(UiContext& ctx, PlotStack& stack, const ThresholdLine& line) {
    const WhatIf* answer = stack.preview.answer();
    if (!answer) return;
    const auto first =
        std::ranges::lower_bound(answer->fires, static_cast<int64_t>(std::floor(ctx.time.x_min)));
    std::vector<double> x_px;
    std::vector<int64_t> steps;
    for (auto it = first; it != answer->fires.end() && static_cast<double>(*it) <= ctx.time.x_max; ++it) {
        x_px.push_back(static_cast<double>(ImPlot::PlotToPixels(static_cast<double>(*it), 0.0).x));
        steps.push_back(*it);
    }
    const float y = ImPlot::PlotToPixels(0.0, line.value).y, size = ImGui::GetFontSize() * 0.3F;
    const Colour colour = ctx.theme.signal(info().name);
    ImPlot::PushPlotClipRect();
    ImDrawList* list = ImPlot::GetPlotDrawList();
    for (const MarkerGroup& group : merge_markers(x_px, 3)) {
        const auto x = static_cast<float>(group.x());
        // Solid as far as the prediction is exact, faint where the text itself would differ.
        const bool exact = !answer->exact_until || steps[group.first] <= *answer->exact_until;
        const Colour ink = with_alpha(colour, exact ? 0.9F : 0.45F);
        list->AddLine({x, m_box.y}, {x, m_box.y + m_box.height}, with_alpha(colour, exact ? 0.30F : 0.16F));
        list->AddTriangleFilled({x - size, y - 2 * size}, {x + size, y - 2 * size}, {x, y - 1}, ink);
    }
    ImPlot::PopPlotClipRect();
}

void SignalPlot::draw_tags(UiContext& ctx, const Lines& lines) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float line_height = ImGui::GetTextLineHeight(), half = tag_half_height(), arrow = tag_arrow();
    for (const ThresholdLine& line : lines) {
        if (!std::isfinite(line.value)) continue;
        const Colour colour = ctx.theme.tag(ctx.theme.signal(info().name));
        const bool above = line.value > m_axis.max, below = line.value < m_axis.min;
        const float y = tag_y(line);
        const std::string text = format_number(line.value);
        const float width = tag_width(line.value);
        const float left = tag_left(width + arrow) + (m_on_right ? arrow : 0), right = left + width;
        // A box with an arrow towards the plot; both orders go round clockwise.
        const ImVec2 to_right[] = {{left, y - half},
                                   {right, y - half},
                                   {right + arrow, y},
                                   {right, y + half},
                                   {left, y + half}},
                     to_left[] = {{left, y - half},
                                  {right, y - half},
                                  {right, y + half},
                                  {left, y + half},
                                  {left - arrow, y}};
        const ImVec2* shape = m_on_right ? to_left : to_right;
        // Hollow until the engine has it; pale while its trigger is off.
        const bool hollow = line.pending || !line.enabled;
        const Colour rim = line.enabled ? colour : mix(ctx.theme.plot_background, colour, 0.6F);
        list->AddConvexPolyFilled(shape, 5, hollow ? ctx.theme.plot_background : colour);
        if (hollow) list->AddPolyline(shape, 5, rim, 1.5F, ImDrawFlags_Closed);
        list->AddText({left + 4, y - line_height / 2}, hollow ? ctx.theme.text : ctx.theme.tag_text,
                      text.c_str());
        if (above || below) { // out of range: an arrow on the tag's top or bottom says where the line is
            const float x = (left + right) / 2, d = above ? -1.0F : 1.0F, edge = y + d * half;
            list->AddTriangleFilled({x - 5, edge}, {x + 5, edge}, {x, edge + d * 5}, colour);
        }
    }
}

} // namespace refreshlab::ui
