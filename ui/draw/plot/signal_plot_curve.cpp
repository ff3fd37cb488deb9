// What a plot of the Signals panel shows of a recording: curve, band, refreshes, the steps that are looked at.
#include "ui/base/colour.h"
#include "ui/draw/plot/signal_plot.h"
#include "ui/scene/text/rug.h"
#include "ui/scene/theme/run_colours.h"

#include <fmt/format.h>
#include <implot.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

void SignalPlot::draw_curve(UiContext& ctx, PlotStack& stack, double width_px) {
    if (m_pick == LayerPick())
        if (const SeriesSet::Band* band = stack.series.band(m_signal)) draw_band(ctx, *band, width_px);
    draw_rejected(ctx, stack, width_px);
    decimate(stack.series.series(m_signal, m_pick), ctx.time.x_min, ctx.time.x_max, width_px, m_path);
    clip_to_axis(m_axis, m_path);
    const Colour colour = curve_colour(ctx, stack);
    draw_path(colour, 1.5F);
    draw_placeless(ctx, colour);
}

bool SignalPlot::shows_rejected(const UiContext& ctx) const {
    return ctx.views.signals.rejected && ctx.recording && RejectedSeries::is_kept(info().name);
}

/// What rejected drafts had, where they would have gone on: below the curve of what stays.
void SignalPlot::draw_rejected(UiContext& ctx, const PlotStack& stack, double width_px) {
    if (!shows_rejected(ctx) || !m_rejected.any()) return;
    decimate(m_rejected.series(), ctx.time.x_min, ctx.time.x_max, width_px, m_path);
    clip_to_axis(m_axis, m_path);
    m_path.stair_x.clear(); // one draft has nothing to do with the next
    m_path.stair_y.clear();
    ImGui::PushID("rejected");
    draw_path(with_alpha(curve_colour(ctx, stack), rejected_alpha), 1.0F);
    ImGui::PopID();
    ctx.landmarks.set_text([&] { return fmt::format("{} {}", m_path.x.size(), m_path.marker_x.size()); },
                           "signals/rejected/{}", std::string(info().name));
}

void SignalPlot::draw_band(UiContext& ctx, const SeriesSet::Band& band, double width_px) {
    const Colour colour = ctx.theme.signal(info().name);
    envelope(band.low, band.high, ctx.time.x_min, ctx.time.x_max, width_px, m_band_x, m_band_low,
             m_band_high);
    clip_to_axis(m_axis, m_band_low);
    clip_to_axis(m_axis, m_band_high);
    ImPlotSpec fill;
    fill.FillColor = ImGui::ColorConvertU32ToFloat4(colour);
    fill.FillAlpha = 0.32F;
    // One piece per run of measured columns; a lone one becomes a whisker, which is all that is known there.
    for (size_t i = 0; i < m_band_x.size();) {
        size_t end = i;
        while (end < m_band_x.size() && std::isfinite(m_band_low[end]) && std::isfinite(m_band_high[end]))
            ++end;
        if (end - i == 1) {
            const ImVec2 low = ImPlot::PlotToPixels(m_band_x[i], m_band_low[i]);
            const ImVec2 high = ImPlot::PlotToPixels(m_band_x[i], m_band_high[i]);
            ImPlot::PushPlotClipRect();
            ImPlot::GetPlotDrawList()->AddLine(low, high, with_alpha(colour, 0.5F), 2);
            ImPlot::PopPlotClipRect();
        } else if (end - i > 1) {
            ImPlot::PlotShaded("##band", m_band_x.data() + i, m_band_low.data() + i, m_band_high.data() + i,
                               static_cast<int>(end - i), fill);
        }
        i = std::max(end, i + 1);
    }
}

/// \param weight  of the line, pixels at the smallest type
void SignalPlot::draw_path(Colour colour, float weight) {
    const float scale = std::max(1.0F, ImGui::GetFontSize() / 16);
    ImPlotSpec spec;
    spec.LineColor = ImGui::ColorConvertU32ToFloat4(with_alpha(colour, 0.45F));
    spec.LineWeight = scale;
    if (!m_path.stair_x.empty())
        ImPlot::PlotLine("##stair", m_path.stair_x.data(), m_path.stair_y.data(),
                         static_cast<int>(m_path.stair_x.size()), spec);
    spec.LineColor = ImGui::ColorConvertU32ToFloat4(colour);
    spec.LineWeight = weight * scale;
    if (!m_path.x.empty())
        ImPlot::PlotLine("##line", m_path.x.data(), m_path.y.data(), static_cast<int>(m_path.x.size()), spec);
    if (!m_path.marker_x.empty()) {
        spec.Marker = ImPlotMarker_Circle;
        spec.MarkerSize = 2 * weight * scale;
        spec.MarkerFillColor = spec.MarkerLineColor = ImGui::ColorConvertU32ToFloat4(colour);
        ImPlot::PlotScatter("##points", m_path.marker_x.data(), m_path.marker_y.data(),
                            static_cast<int>(m_path.marker_x.size()), spec);
    }
}

/// What has no place: NaN as ticks on the rug, infinities and values that a logarithm does not know as triangles at their
/// edge.
void SignalPlot::draw_placeless(UiContext& ctx, Colour colour) {
    const float scale = std::max(1.0F, ImGui::GetFontSize() / 16);
    ImPlot::PushPlotClipRect();
    ImDrawList* list = ImPlot::GetPlotDrawList();
    const float top = m_box.y, bottom = m_box.y + m_box.height, mark = 6 * scale;
    const auto pixel = [&](double x) { return ImPlot::PlotToPixels(x, 0.0).x; };
    for (const double x : m_path.nan_x)
        list->AddLine({pixel(x), bottom - 1.5F * mark}, {pixel(x), bottom}, ctx.theme.text_error, 2 * scale);
    for (const double x : m_path.pos_inf_x)
        list->AddTriangleFilled({pixel(x), top + 1}, {pixel(x) + mark, top + 1 + 1.5F * mark},
                                {pixel(x) - mark, top + 1 + 1.5F * mark}, colour);
    for (const auto* below : {&m_path.neg_inf_x, &m_path.below_x})
        for (const double x : *below)
            list->AddTriangleFilled({pixel(x), bottom - 1}, {pixel(x) - mark, bottom - 1 - 1.5F * mark},
                                    {pixel(x) + mark, bottom - 1 - 1.5F * mark}, colour);
    ImPlot::PopPlotClipRect();
}

void SignalPlot::draw_refresh_lines(UiContext& ctx, PlotStack& stack) {
    if (!ctx.recording) return;
    const LaneMarks marks =
        ctx.marks.in_sight(MarkLane::refresh, ctx.time.x_min, ctx.time.x_max, static_cast<double>(m_box.x),
                           static_cast<double>(m_box.width));
    // A crowd stands in the rug above the plots alone: the curves are what one looks at here.
    if (crowded(marks, static_cast<double>(m_box.width), static_cast<double>(ImGui::GetFontSize()))) return;
    ImPlot::PushPlotClipRect();
    ImDrawList* list = ImPlot::GetPlotDrawList();
    const float top = m_box.y, bottom = m_box.y + m_box.height;
    const ImVec2 mouse = ImGui::GetMousePos();
    const bool hovered = ImPlot::IsPlotHovered();
    for (const MarkerGroup& group : merge_markers(marks.x_px, 3, 6)) {
        const Colour colour = group_colour(ctx.theme, ctx.marks, marks, group);
        const auto left = static_cast<float>(group.x_min), right = static_cast<float>(group.x_max);
        const bool near = hovered && mouse.x > left - 3 && mouse.x < right + 3;
        if (near) stack.hovered_marks = group;
        // Neighbours are one line, never a band: the rug above says how many they are.
        const float x = std::round((left + right) / 2) + 0.5F;
        list->AddLine({x, top}, {x, bottom}, with_alpha(colour, near ? 1.0F : 0.42F), near ? 2.0F : 1.0F);
    }
    ImPlot::PopPlotClipRect();
}

void SignalPlot::draw_step_lines(UiContext& ctx) {
    ImPlot::PushPlotClipRect();
    ImDrawList* list = ImPlot::GetPlotDrawList();
    const auto vertical = [&](int64_t step, Colour colour, float thickness) {
        const float x = std::round(ImPlot::PlotToPixels(static_cast<double>(step), 0.0).x) + 0.5F;
        list->AddLine({x, m_box.y}, {x, m_box.y + m_box.height}, colour, thickness);
    };
    if (ctx.selection.step) vertical(*ctx.selection.step, ctx.theme.selection, 1.5F);
    if (ctx.hovered_step) vertical(*ctx.hovered_step, ctx.theme.crosshair, 1);
    ImPlot::PopPlotClipRect();
}

/// Where the crosshair meets the curve, so that the value in the header has a place.
void SignalPlot::draw_ring(UiContext& ctx, const PlotStack& stack) {
    if (!ctx.hovered_step || m_pick.strip) return;
    const float value = stack.series.value(*ctx.hovered_step, m_signal, m_pick);
    if (!m_axis.has_place(static_cast<double>(value))) return;
    ImPlot::PushPlotClipRect();
    ImDrawList* list = ImPlot::GetPlotDrawList();
    const ImVec2 at =
        ImPlot::PlotToPixels(static_cast<double>(*ctx.hovered_step), static_cast<double>(value));
    list->AddCircleFilled(at, 3.5F, ctx.theme.plot_background);
    list->AddCircle(at, 3.5F, curve_colour(ctx, stack), 0, 1.5F);
    ImPlot::PopPlotClipRect();
}

} // namespace refreshlab::ui
