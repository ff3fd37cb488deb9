// The two plots of the Distribution panel: histogram of one signal, cells of two.
#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/text.h"
#include "ui/panels/distribution/distribution_panel.h"
#include "ui/scene/axes/auto_range.h"
#include "ui/scene/maps/colour_maps.h"
#include "ui/scene/maps/pair_colours.h"
#include "ui/scene/series/distribution.h"

#include <fmt/format.h>
#include <implot.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>

namespace refreshlab::ui {
namespace {

void say_empty(const UiContext& ctx, const char* what) {
    const ImVec2 low = ImPlot::GetPlotPos(), extent = ImPlot::GetPlotSize();
    const ImVec2 text = ImGui::CalcTextSize(what);
    ImPlot::GetPlotDrawList()->AddText({low.x + (extent.x - text.x) / 2, low.y + (extent.y - text.y) / 2},
                                       ctx.theme.text_muted, what);
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
    const float em = ImGui::GetFontSize();
    const bool whole = info().unit == "tokens";
    const float width = size.x > 0 ? size.x : ImGui::GetContentRegionAvail().x + size.x;
    const Histogram bins =
        histogram(m_statistics.sorted, std::clamp(static_cast<int>(width / (em * 0.55F)), 8, 80), whole);
    fit(ctx, m_axis, info(), bins, lines);
    const double most = bins.counts.empty() ? 1 : *std::ranges::max_element(bins.counts);
    if (!begin_plot("##histogram", size)) return;
    ImPlot::SetupAxis(ImAxis_Y1, "count (steps)");
    if (m_log) ImPlot::SetupAxisScale(ImAxis_Y1, ImPlotScale_Log10);
    const ValueAxis counts{
        .scale = m_log ? AxisScale::log : AxisScale::linear, .min = bottom(), .max = count_top(most, m_log)};
    ImPlot::SetupAxisLimits(ImAxis_Y1, counts.min, counts.max, ImPlotCond_Always);
    ImPlot::SetupAxisFormat(ImAxis_Y1, count_label);
    set_up_ticks(counts, size.y, true);
    ImPlot::SetupFinish();
    draw_bars(ctx, bins, lines);
    const bool on_line = draw_lines(ctx, info(), lines, m_axis, true);
    const char* empty = m_statistics.not_finite > 0 ? "no finite value" : "not measured here";
    if (finish_plot(ctx, bins.counts.empty() ? empty : nullptr, on_line)) hover(bins);
    end_plot();
}

/// How often the two signals have which values at the same step.
void DistributionPanel::draw_pairs(UiContext& ctx, const Lines& lines, const Lines& others, ImVec2 size) {
    const float em = ImGui::GetFontSize();
    const auto cells = [&](float pixels) {
        return std::clamp(static_cast<int>(pixels / (em * 0.6F)), 8, 60);
    };
    const std::array wanted = {cells(size.x), cells(size.y)};
    if (wanted != m_cells_for) {
        m_cells_for = wanted;
        m_cells =
            pair_histogram(m_pairs, wanted[0], wanted[1], info().unit == "tokens", other().unit == "tokens");
    }
    fit(ctx, m_axis, info(), m_cells.x, lines);
    fit(ctx, m_other_axis, other(), m_cells.y, others);
    if (!begin_plot("##pairs", size)) return;
    // Upright beside a low plot it would run through what stands above and below; "against" names it as well.
    const std::string label = with_unit(other().label, other().unit);
    const bool fits = ImGui::CalcTextSize(label.c_str()).x + 2 * em < size.y;
    ImPlot::SetupAxis(ImAxis_Y1, fits ? label.c_str() : nullptr, ImPlotAxisFlags_NoGridLines);
    ImPlot::SetupAxisLimits(ImAxis_Y1, m_other_axis.min, m_other_axis.max, ImPlotCond_Always);
    set_up_ticks(m_other_axis, size.y, false);
    ImPlot::SetupFinish();
    draw_cells_of_pairs(ctx.theme);
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
    std::vector<double> thresholds;
    for (const ThresholdLine& line : lines)
        thresholds.push_back(line.value);
    std::optional<ValueRange> data;
    if (!bins.counts.empty()) data = ValueRange{bins.low, bins.high()};
    const ValueRange range =
        auto_range(data, thresholds, usual_range(signal, ctx.recording->info().vocab_size));
    axis.min = range.min;
    axis.max = range.max;
}

/// Bars in the signal's colour; the part that some enabled trigger would fire on is full, the rest pale.
void DistributionPanel::draw_bars(UiContext& ctx, const Histogram& bins, const Lines& lines) const {
    ImDrawList* list = ImPlot::GetPlotDrawList();
    const ImU32 colour = ctx.theme.signal(info().name);
    ImPlot::PushPlotClipRect();
    for (size_t i = 0; i < bins.counts.size(); ++i) {
        if (bins.counts[i] == 0) continue;
        const double from = bins.low + bins.width * static_cast<double>(i), to = from + bins.width;
        const ImVec2 a = ImPlot::PlotToPixels(from, bins.counts[i]), b = ImPlot::PlotToPixels(to, bottom());
        const float gap = b.x - a.x > 4 ? 1.0F : 0.0F;
        // A bar of one step in a thousand is still seen.
        const ImVec2 low(a.x, std::min(a.y, b.y - 2)), high(std::max(b.x - gap, a.x + 1), b.y);
        list->AddRectFilled(low, high, with_alpha(colour, lines.empty() ? 0.75F : 0.32F));
        for (const ThresholdLine& line : lines) {
            if (!line.enabled || !std::isfinite(line.value)) continue;
            const bool up = line.comparison == Comparison::above || line.comparison == Comparison::at_least;
            const float at = std::clamp(ImPlot::PlotToPixels(line.value, bottom()).x, low.x, high.x);
            const float left = up ? at : low.x, right = up ? high.x : at;
            if (right > left) list->AddRectFilled({left, low.y}, {right, high.y}, with_alpha(colour, 0.75F));
        }
    }
    ImPlot::PopPlotClipRect();
}

void DistributionPanel::draw_cells_of_pairs(const Theme& theme) const {
    ImDrawList* list = ImPlot::GetPlotDrawList();
    const ColourScale scale = pair_scale(theme);
    ImPlot::PushPlotClipRect();
    for (size_t row = 0; row < m_cells.y.counts.size(); ++row)
        for (size_t column = 0; column < m_cells.x.counts.size(); ++column) {
            const double count = m_cells.at(column, row);
            if (count == 0) continue;
            const double x = m_cells.x.low + m_cells.x.width * static_cast<double>(column),
                         y = m_cells.y.low + m_cells.y.width * static_cast<double>(row);
            const ImVec2 a = ImPlot::PlotToPixels(x, y + m_cells.y.width),
                         b = ImPlot::PlotToPixels(x + m_cells.x.width, y);
            // Neighbours share a border on whole pixels: no seam between them.
            const ImVec2 low(std::round(a.x), std::round(a.y)),
                high(std::max(std::round(b.x), low.x + 1), std::max(std::round(b.y), low.y + 1));
            list->AddRectFilled(low, high, scale(count));
        }
    ImPlot::PopPlotClipRect();
}

void DistributionPanel::hover(const Histogram& bins) const {
    const double x = ImPlot::GetPlotMousePos().x;
    const double bin = std::floor((x - bins.low) / bins.width);
    if (bin < 0 || bin >= static_cast<double>(bins.counts.size())) return;
    const double from = bins.low + bin * bins.width;
    const auto count = static_cast<int64_t>(bins.counts[static_cast<size_t>(bin)]);
    ImGui::SetTooltip("%s to %s: %s %s", format_tick(from, bins.width).c_str(),
                      format_value(from + bins.width, info().unit).c_str(), format_thousands(count).c_str(),
                      count == 1 ? "step" : "steps");
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
    ImGui::SetTooltip("%s\n%s\n%s %s", range(info(), m_cells.x, column).c_str(),
                      range(other(), m_cells.y, row).c_str(), format_thousands(count).c_str(),
                      count == 1 ? "step" : "steps");
}

ColourScale DistributionPanel::pair_scale(const Theme& theme) const {
    return ui::pair_scale(theme.map_amounts, m_cells.most, m_log);
}

} // namespace refreshlab::ui
