// The two plots of the Distribution panel: histogram of one signal, cells of two.
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/screen_canvas.h"
#include "ui/draw/text.h"
#include "ui/figure/paint/distribution_paint.h"
#include "ui/panels/distribution/distribution_panel.h"
#include "ui/scene/maps/colour_maps.h"
#include "ui/scene/maps/pair_colours.h"
#include "ui/scene/series/distribution.h"

#include <fmt/format.h>
#include <implot.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace refreshlab::ui {
namespace {

void say_empty(const UiContext& ctx, const char* what) {
    const ImVec2 low = ImPlot::GetPlotPos(), extent = ImPlot::GetPlotSize();
    const ImVec2 text = ImGui::CalcTextSize(what);
    ImPlot::GetPlotDrawList()->AddText({low.x + (extent.x - text.x) / 2, low.y + (extent.y - text.y) / 2},
                                       ctx.theme.text_muted, what);
}

std::vector<ShownThreshold> shown_thresholds(const std::vector<ThresholdLine>& lines) {
    std::vector<ShownThreshold> shown;
    for (const ThresholdLine& line : lines)
        shown.push_back({line.value, line.comparison, line.enabled});
    return shown;
}

/// Whether a y axis of a plot of this height has room for its name, which else runs through what stands above and below.
bool fits_upright(const char* name, float height) {
    return ImGui::CalcTextSize(name).x + 4 * ImGui::GetTextLineHeight() < height;
}

/// Of the ImPlot plot that is open.
PlotArea plot_area(const ValueAxis& x, const ValueAxis& y) {
    const ImVec2 low = ImPlot::GetPlotPos(), extent = ImPlot::GetPlotSize();
    return {figure_rect({low.x, low.y, extent.x, extent.y}), x.min, x.max, y};
}

/// "12,300".
int count_label(double value, char* buffer, int size, void*) {
    return std::snprintf(buffer, static_cast<size_t>(size), "%s",
                         format_thousands(std::llround(value)).c_str());
}

} // namespace

/// Style, plot and x axis, which both plots share. \return false where there is no room; else end_plot() follows
bool DistributionPanel::begin_plot(const char* id, ImVec2 size) const {
    ImPlot::PushStyleVar(ImPlotStyleVar_PlotPadding, ImVec2(4, 5));
    ImPlot::PushStyleVar(ImPlotStyleVar_LabelPadding, ImVec2(5, 3));
    if (!ImPlot::BeginPlot(id, size,
                           ImPlotFlags_NoTitle | ImPlotFlags_NoLegend | ImPlotFlags_NoMouseText |
                               ImPlotFlags_NoMenus | ImPlotFlags_NoInputs)) {
        ImPlot::PopStyleVar(2);
        return false;
    }
    const std::string name = with_unit(info().label, info().unit);
    ImPlot::SetupAxis(ImAxis_X1,
                      text_width(name) < size.x - 5 * ImGui::GetFontSize()
                          ? name.c_str()
                          : std::string(info().label).c_str(),
                      ImPlotAxisFlags_NoGridLines);
    ImPlot::SetupAxisLimits(ImAxis_X1, m_axis.min, m_axis.max, ImPlotCond_Always);
    return true;
}

/// Round numbers up to the top of a plot `height` pixels high. \param whole  no others, as of counts
void DistributionPanel::set_up_ticks(const ValueAxis& axis, float height, bool whole) {
    const auto at_most =
        static_cast<int>((height - 3 * ImGui::GetTextLineHeight()) / (1.7F * ImGui::GetTextLineHeight()));
    std::vector<double> ticks = labelled_ticks(axis, std::max(2, at_most));
    if (whole) std::erase_if(ticks, [](double tick) { return tick != std::round(tick); });
    if (!ticks.empty())
        ImPlot::SetupAxisTicks(ImAxis_Y1, ticks.data(), static_cast<int>(ticks.size()), nullptr, false);
}

void DistributionPanel::end_plot() {
    ImPlot::EndPlot();
    ImPlot::PopStyleVar(2);
}

/// After what a plot shows. \param empty  said in a plot without data; null = there is some
/// \return the mouse asks what is under it
bool DistributionPanel::finish_plot(UiContext& ctx, const char* empty, bool on_line) {
    const ImVec2 low = ImPlot::GetPlotPos(), extent = ImPlot::GetPlotSize();
    ctx.landmarks.set("distribution/plot", {low.x, low.y, extent.x, extent.y});
    if (empty) say_empty(ctx, empty);
    return ImPlot::IsPlotHovered() && !on_line;
}

void DistributionPanel::draw_plot(UiContext& ctx, const Lines& lines, ImVec2 size) {
    const bool whole = info().unit == "tokens";
    const float width = size.x > 0 ? size.x : ImGui::GetContentRegionAvail().x + size.x;
    const ScreenPen measure(ctx, ImGui::GetWindowDrawList());
    const Histogram bins =
        histogram(m_statistics.sorted, bins_that_fit(measure, static_cast<double>(width)), whole);
    fit(ctx, m_axis, info(), bins, lines);
    const double most = bins.counts.empty() ? 1 : *std::ranges::max_element(bins.counts);
    if (!begin_plot("##histogram", size)) return;
    ImPlot::SetupAxis(ImAxis_Y1, fits_upright("count (steps)", size.y) ? "count (steps)" : nullptr);
    if (m_log) ImPlot::SetupAxisScale(ImAxis_Y1, ImPlotScale_Log10);
    const ValueAxis counts = count_axis(most, m_log);
    ImPlot::SetupAxisLimits(ImAxis_Y1, counts.min, counts.max, ImPlotCond_Always);
    ImPlot::SetupAxisFormat(ImAxis_Y1, count_label);
    set_up_ticks(counts, size.y, true);
    ImPlot::SetupFinish();
    paint_bars(ScreenPen(ctx, ImPlot::GetPlotDrawList()), plot_area(m_axis, counts), bins,
               shown_thresholds(lines), ctx.theme.signal(info().name));
    const bool on_line = draw_lines(ctx, info(), lines, m_axis, true);
    const char* empty = m_statistics.not_finite > 0 ? "no finite value" : "not measured here";
    if (finish_plot(ctx, bins.counts.empty() ? empty : nullptr, on_line)) hover(bins);
    end_plot();
}

/// How often the two signals have which values at the same step.
void DistributionPanel::draw_pairs(UiContext& ctx, const Lines& lines, const Lines& others, ImVec2 size) {
    const ScreenPen measure(ctx, ImGui::GetWindowDrawList());
    const std::array wanted = {cells_that_fit(measure, static_cast<double>(size.x)),
                               cells_that_fit(measure, static_cast<double>(size.y))};
    if (wanted != m_cells_for) {
        m_cells_for = wanted;
        m_cells =
            pair_histogram(m_pairs, wanted[0], wanted[1], info().unit == "tokens", other().unit == "tokens");
    }
    fit(ctx, m_axis, info(), m_cells.x, lines);
    fit(ctx, m_other_axis, other(), m_cells.y, others);
    if (!begin_plot("##pairs", size)) return;
    const std::string label = with_unit(other().label, other().unit); // "against" names it as well
    ImPlot::SetupAxis(ImAxis_Y1, fits_upright(label.c_str(), size.y) ? label.c_str() : nullptr,
                      ImPlotAxisFlags_NoGridLines);
    ImPlot::SetupAxisLimits(ImAxis_Y1, m_other_axis.min, m_other_axis.max, ImPlotCond_Always);
    set_up_ticks(m_other_axis, size.y, false);
    ImPlot::SetupFinish();
    paint_pair_cells(ScreenPen(ctx, ImPlot::GetPlotDrawList()), plot_area(m_axis, m_other_axis), m_cells,
                     pair_scale(ctx.theme));
    bool on_line = draw_lines(ctx, info(), lines, m_axis, true);
    on_line |= draw_lines(ctx, other(), others, m_other_axis, false);
    if (finish_plot(ctx, m_cells.counts.empty() ? "never measured at the same step" : nullptr, on_line))
        hover_pairs();
    end_plot();
}

/// The range of an axis. One that moved with a line would run away under the mouse.
void DistributionPanel::fit(const UiContext& ctx, ValueAxis& axis, const Signal& signal,
                            const Histogram& bins, const Lines& lines) const {
    if (!m_drag.key().empty()) return;
    const ValueRange range =
        distribution_range(bins, shown_thresholds(lines), signal, ctx.recording->info().vocab_size);
    axis.min = range.min;
    axis.max = range.max;
}

void DistributionPanel::hover(const Histogram& bins) const {
    const double x = ImPlot::GetPlotMousePos().x;
    const double bin = std::floor((x - bins.low) / bins.width);
    if (bin < 0 || bin >= static_cast<double>(bins.counts.size())) return;
    const double from = bins.low + bin * bins.width;
    const auto count = static_cast<int64_t>(bins.counts[static_cast<size_t>(bin)]);
    ImGui::SetTooltip("%s to %s: %s", format_tick(from, bins.width).c_str(),
                      format_value(from + bins.width, info().unit).c_str(),
                      format_count(count, "step").c_str());
}

void DistributionPanel::hover_pairs() const {
    const ImPlotPoint at = ImPlot::GetPlotMousePos();
    const double column = std::floor((at.x - m_cells.x.low) / m_cells.x.width),
                 row = std::floor((at.y - m_cells.y.low) / m_cells.y.width);
    if (column < 0 || row < 0 || column >= static_cast<double>(m_cells.x.counts.size()) ||
        row >= static_cast<double>(m_cells.y.counts.size()))
        return;
    const auto count =
        static_cast<int64_t>(m_cells.at(static_cast<size_t>(column), static_cast<size_t>(row)));
    const auto range = [](const Signal& signal, const Histogram& bins, double bin) {
        const double from = bins.low + bin * bins.width;
        return fmt::format("{}: {} to {}", signal.label, format_tick(from, bins.width),
                           format_value(from + bins.width, signal.unit));
    };
    ImGui::SetTooltip("%s\n%s\n%s", range(info(), m_cells.x, column).c_str(),
                      range(other(), m_cells.y, row).c_str(), format_count(count, "step").c_str());
}

ColourScale DistributionPanel::pair_scale(const Theme& theme) const {
    return ui::pair_scale(theme.map_amounts, m_cells.most, m_log);
}

} // namespace refreshlab::ui
