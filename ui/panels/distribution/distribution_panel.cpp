#include "engine/base/quantile.h"
#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/colour_bar.h"
#include "ui/draw/signal_plot.h"
#include "ui/draw/threshold_drag.h"
#include "ui/panels/panel.h"
#include "ui/scene/axes/time_view.h"
#include "ui/scene/maps/colour_maps.h"
#include "ui/scene/series/distribution.h"
#include "ui/widgets/offer_run.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>
#include <implot.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>

namespace refreshlab::ui {
namespace {

/// Up to here a frame may work the statistics out anew whenever a step has come.
constexpr int64_t immediate_steps = 8000;
/// Longer runs: so many seconds between two times.
constexpr double pause = 0.5;

/// Histogram of one signal with the thresholds of its triggers in it, and its numbers: over the whole run, or over the
/// steps that the plots show. Against another signal it is one of two dimensions, with the thresholds of both.
class DistributionPanel final : public Panel {
public:
    [[nodiscard]] std::string_view title() const override { return "Distribution"; }
    void recording_changed(UiContext&) override { m_known = {}; }

    void draw(UiContext& ctx) override {
        if (!ctx.recording || ctx.steps == 0) {
            offer_run(ctx, "How often each value of a signal comes appears here, with the thresholds in it.");
            return;
        }
        draw_choice(ctx);
        update(ctx);
        const std::vector<ThresholdLine> lines = threshold_lines(ctx.drafts, info().name);
        const std::vector<ThresholdLine> others =
            m_other ? threshold_lines(ctx.drafts, other().name) : std::vector<ThresholdLine>();
        const float em = ImGui::GetFontSize(), row = ImGui::GetTextLineHeightWithSpacing();
        const auto rows = m_other ? 5.0F : 7.0F + static_cast<float>(lines.size());
        const ImVec2 room = ImGui::GetContentRegionAvail();
        const bool beside = room.x > em * 26;
        // One below the other the plot keeps a readable height, and the numbers scroll.
        const float height = beside ? room.y : std::max(room.y - rows * row, em * 7);
        const ImVec2 size(beside ? room.x - em * 14.5F : room.x - 1, height);
        if (m_other)
            draw_pairs(ctx, lines, others, size);
        else
            draw_plot(ctx, lines, size);
        if (beside) ImGui::SameLine();
        if (ImGui::BeginChild("##numbers")) {
            if (m_other)
                draw_pair_numbers(ctx, lines, others);
            else
                draw_numbers(ctx, lines);
        }
        ImGui::EndChild();
        m_drag.end_frame(ctx);
    }

private:
    /// What the statistics were worked out for.
    struct Known {
        const Recording* recording = nullptr;
        size_t signal = 0, other = max_signals, back_fills = 0;
        int64_t steps = 0, first = 0, last = 0;
        friend bool operator==(const Known&, const Known&) = default;
    };

    [[nodiscard]] const Signal& info() const { return signals()[m_signal]; }
    [[nodiscard]] const Signal& other() const { return signals()[*m_other]; } ///< only where there is one

    void draw_choice(UiContext& ctx) {
        if (!m_chosen) { // the signal that decides, until a person has chosen another
            const RefreshPolicy policy = ctx.drafts.policy();
            const auto trigger = std::ranges::find_if(policy.triggers, [](const Trigger& t) {
                return t.enabled && t.signal != "steps_since_refresh";
            });
            const auto id = signal_id(trigger != policy.triggers.end() ? std::string_view(trigger->signal)
                                                                       : "entropy_bits");
            if (id) m_signal = *id;
        }
        const float em = ImGui::GetFontSize(), spacing = ImGui::GetStyle().ItemSpacing.x;
        const float range_width = ImGui::CalcTextSize("steps in sight").x + ImGui::GetFrameHeight() + em;
        const float log_width =
            ImGui::GetFrameHeight() + ImGui::GetStyle().ItemInnerSpacing.x + ImGui::CalcTextSize("Log").x;
        // In a narrow panel the signal has a line of its own.
        const float room = ImGui::GetContentRegionAvail().x;
        const float left = room - range_width - log_width - 2 * spacing;
        const bool one_line = left > em * 7;
        ImGui::SetNextItemWidth(one_line ? left : room);
        if (ImGui::BeginCombo("##signal", with_unit(info().label, info().unit).c_str(),
                              ImGuiComboFlags_HeightLarge)) {
            for (size_t id = 0; id < signals().size(); ++id) {
                const Signal& signal = signals()[id];
                if (ImGui::Selectable(with_unit(signal.label, signal.unit).c_str(), id == m_signal)) {
                    m_signal = id;
                    m_chosen = true;
                }
                ImGui::SetItemTooltip("%s", std::string(signal.description).c_str());
            }
            ImGui::EndCombo();
        }
        if (one_line) ImGui::SameLine();
        ImGui::SetNextItemWidth(range_width);
        if (ImGui::BeginCombo("##range", m_in_sight ? "steps in sight" : "whole run")) {
            if (ImGui::Selectable("whole run", !m_in_sight)) m_in_sight = false;
            if (ImGui::Selectable("steps in sight", m_in_sight)) m_in_sight = true;
            ImGui::SetItemTooltip("The range that Signals shows: zoom there to choose it");
            ImGui::EndCombo();
        }
        ImGui::SameLine();
        ImGui::Checkbox("Log", &m_log);
        ImGui::SetItemTooltip(
            "Counts on a logarithmic scale: the few steps of the tail are seen beside the many");
        if (m_other == m_signal) m_other.reset();
        ImGui::AlignTextToFramePadding();
        ImGui::TextDisabled("against");
        ImGui::SameLine();
        ImGui::SetNextItemWidth(-1);
        if (ImGui::BeginCombo("##against",
                              m_other ? with_unit(other().label, other().unit).c_str() : "nothing",
                              ImGuiComboFlags_HeightLarge)) {
            if (ImGui::Selectable("nothing", !m_other)) m_other.reset();
            for (size_t id = 0; id < signals().size(); ++id) {
                const Signal& signal = signals()[id];
                if (id == m_signal) continue;
                if (ImGui::Selectable(with_unit(signal.label, signal.unit).c_str(), id == m_other))
                    m_other = id;
                ImGui::SetItemTooltip("%s", std::string(signal.description).c_str());
            }
            ImGui::EndCombo();
        }
        ImGui::SetItemTooltip("A second signal upward: how often the two have which values at the same step");
    }

    void update(UiContext& ctx) {
        const StepRange sight = steps_in_sight(ctx.time, ctx.steps);
        const Known wanted = {ctx.recording.get(),
                              m_signal,
                              m_other.value_or(max_signals),
                              ctx.recording->back_fills().size(),
                              ctx.steps,
                              m_in_sight ? sight.first : 1,
                              m_in_sight ? sight.last : ctx.steps};
        if (wanted == m_known) return;
        const bool same_question = wanted.recording == m_known.recording && wanted.signal == m_known.signal &&
                                   wanted.other == m_known.other && !m_in_sight;
        if (same_question && ctx.steps > immediate_steps && ImGui::GetTime() < m_when + pause) {
            ctx.host.keep_awake(pause);
            return;
        }
        m_known = wanted;
        m_when = ImGui::GetTime();
        m_statistics = signal_statistics(*ctx.recording, ctx.steps, m_signal, wanted.first, wanted.last);
        m_pairs = {};
        if (m_other)
            m_pairs = signal_pairs(*ctx.recording, ctx.steps, m_signal, *m_other, wanted.first, wanted.last);
        m_cells_for = {};
    }

    void draw_plot(UiContext& ctx, const std::vector<ThresholdLine>& lines, ImVec2 size) {
        const float em = ImGui::GetFontSize();
        const bool whole = info().unit == "tokens";
        const float width = size.x > 0 ? size.x : ImGui::GetContentRegionAvail().x + size.x;
        const Histogram bins =
            histogram(m_statistics.sorted, std::clamp(static_cast<int>(width / (em * 0.55F)), 8, 80), whole);
        fit(ctx, m_axis, info(), bins, lines);
        const double most = bins.counts.empty() ? 1 : *std::ranges::max_element(bins.counts);

        ImPlot::PushStyleVar(ImPlotStyleVar_PlotPadding, ImVec2(4, 5));
        ImPlot::PushStyleVar(ImPlotStyleVar_LabelPadding, ImVec2(5, 3));
        if (ImPlot::BeginPlot("##histogram", size,
                              ImPlotFlags_NoTitle | ImPlotFlags_NoLegend | ImPlotFlags_NoMouseText |
                                  ImPlotFlags_NoMenus | ImPlotFlags_NoInputs)) {
            ImPlot::SetupAxis(ImAxis_X1, nullptr, ImPlotAxisFlags_NoGridLines);
            ImPlot::SetupAxis(ImAxis_Y1, "steps");
            ImPlot::SetupAxisLimits(ImAxis_X1, m_axis.min, m_axis.max, ImPlotCond_Always);
            if (m_log) ImPlot::SetupAxisScale(ImAxis_Y1, ImPlotScale_Log10);
            ImPlot::SetupAxisLimits(ImAxis_Y1, bottom(), m_log ? std::max(most * 1.5, 10.0) : most * 1.08,
                                    ImPlotCond_Always);
            ImPlot::SetupFinish();
            draw_bars(ctx, bins, lines);
            const bool on_line = draw_lines(ctx, info(), lines, m_axis, true);
            const ImVec2 low = ImPlot::GetPlotPos(), extent = ImPlot::GetPlotSize();
            ctx.landmarks.set("distribution/plot", {low.x, low.y, extent.x, extent.y});
            if (bins.counts.empty())
                say_empty(ctx, m_statistics.not_finite > 0 ? "no finite value" : "not measured here");
            if (ImPlot::IsPlotHovered() && !on_line) hover(bins);
            ImPlot::EndPlot();
        }
        ImPlot::PopStyleVar(2);
    }

    /// The range of an axis. One that moved with a line would run away under the mouse.
    void fit(const UiContext& ctx, ValueAxis& axis, const Signal& signal, const Histogram& bins,
             const std::vector<ThresholdLine>& lines) const {
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

    static void say_empty(const UiContext& ctx, const char* what) {
        const ImVec2 low = ImPlot::GetPlotPos(), extent = ImPlot::GetPlotSize();
        const ImVec2 text = ImGui::CalcTextSize(what);
        ImPlot::GetPlotDrawList()->AddText({low.x + (extent.x - text.x) / 2, low.y + (extent.y - text.y) / 2},
                                           ctx.theme.text_muted, what);
    }

    /// How often the two signals have which values at the same step.
    void draw_pairs(UiContext& ctx, const std::vector<ThresholdLine>& lines,
                    const std::vector<ThresholdLine>& others, ImVec2 size) {
        const float em = ImGui::GetFontSize();
        const auto cells = [&](float pixels) {
            return std::clamp(static_cast<int>(pixels / (em * 0.6F)), 8, 60);
        };
        const std::array wanted = {cells(size.x), cells(size.y)};
        if (wanted != m_cells_for) {
            m_cells_for = wanted;
            m_cells = pair_histogram(m_pairs, wanted[0], wanted[1], info().unit == "tokens",
                                     other().unit == "tokens");
        }
        fit(ctx, m_axis, info(), m_cells.x, lines);
        fit(ctx, m_other_axis, other(), m_cells.y, others);
        ImPlot::PushStyleVar(ImPlotStyleVar_PlotPadding, ImVec2(4, 5));
        ImPlot::PushStyleVar(ImPlotStyleVar_LabelPadding, ImVec2(5, 3));
        if (ImPlot::BeginPlot("##pairs", size,
                              ImPlotFlags_NoTitle | ImPlotFlags_NoLegend | ImPlotFlags_NoMouseText |
                                  ImPlotFlags_NoMenus | ImPlotFlags_NoInputs)) {
            ImPlot::SetupAxis(ImAxis_X1, nullptr, ImPlotAxisFlags_NoGridLines);
            // Upright beside a low plot it would run through what stands above and below; "against" names it as well.
            const std::string label = with_unit(other().label, other().unit);
            const bool fits = ImGui::CalcTextSize(label.c_str()).x + 2 * em < size.y;
            ImPlot::SetupAxis(ImAxis_Y1, fits ? label.c_str() : nullptr, ImPlotAxisFlags_NoGridLines);
            ImPlot::SetupAxisLimits(ImAxis_X1, m_axis.min, m_axis.max, ImPlotCond_Always);
            ImPlot::SetupAxisLimits(ImAxis_Y1, m_other_axis.min, m_other_axis.max, ImPlotCond_Always);
            ImPlot::SetupFinish();
            draw_cells_of_pairs();
            bool on_line = draw_lines(ctx, info(), lines, m_axis, true);
            on_line |= draw_lines(ctx, other(), others, m_other_axis, false);
            const ImVec2 low = ImPlot::GetPlotPos(), extent = ImPlot::GetPlotSize();
            ctx.landmarks.set("distribution/plot", {low.x, low.y, extent.x, extent.y});
            if (m_cells.counts.empty()) say_empty(ctx, "never measured at the same step");
            if (ImPlot::IsPlotHovered() && !on_line) hover_pairs();
            ImPlot::EndPlot();
        }
        ImPlot::PopStyleVar(2);
    }

    [[nodiscard]] ColourScale pair_scale() const {
        // Half a step is the lowest colour, so that one step stands out from none on either scale.
        return {colour_map("viridis"), m_log ? 0.5 : 0, std::max(1.0, m_cells.most), m_log};
    }

    void draw_cells_of_pairs() const {
        ImDrawList* list = ImPlot::GetPlotDrawList();
        const ColourScale scale = pair_scale();
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

    void hover_pairs() const {
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

    void draw_pair_numbers(UiContext& ctx, const std::vector<ThresholdLine>& lines,
                           const std::vector<ThresholdLine>& others) const {
        const auto pairs = static_cast<int64_t>(m_pairs.x.size());
        number_row(ctx, "both measured", format_thousands(pairs), "Steps at which both signals are numbers");
        number_row(ctx, "correlation", m_pairs.correlation ? format_number(*m_pairs.correlation) : "-",
                   "Pearson's r of the two signals over these steps");
        ctx.landmarks.set_text("distribution/pairs", fmt::to_string(pairs));
        const auto first_on = [](const std::vector<ThresholdLine>& all) {
            return std::ranges::find_if(all, [](const ThresholdLine& line) { return line.enabled; });
        };
        const auto x = first_on(lines), y = first_on(others);
        if (x != lines.end() && y != others.end()) {
            const int64_t beyond = count_beyond(m_pairs, x->comparison, x->value, y->comparison, y->value);
            number_row(ctx, "beyond both thresholds",
                       fmt::format("{}, {}", format_thousands(beyond), percent(beyond, pairs)),
                       "Stride, cool-down and budget do not count here");
            ctx.landmarks.set_text("distribution/beyond_both", fmt::to_string(beyond));
        }
        if (pairs == 0) return;
        const float room = ImGui::GetContentRegionAvail().x, em = ImGui::GetFontSize();
        if (room > em * 8)
            draw_colour_bar("##counts", pair_scale(), std::min(em * 7, room - em * 6), "steps");
    }

    /// The thresholds of a signal, to be dragged as in Signals, across the axis `along` which they mean.
    /// \return true: the mouse is on one, or holds it
    bool draw_lines(UiContext& ctx, const Signal& signal, const std::vector<ThresholdLine>& lines,
                    ValueAxis& axis, bool along_x) {
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
                const DragLimits limits = drag_limits(line, signal.name);
                const bool under = along_x ? mouse.x < low.x : mouse.y > low.y + extent.y,
                           over = along_x ? mouse.x > low.x + extent.x : mouse.y < low.y;
                if (under && axis.min > limits.min) below = 0.02;
                if (over && axis.max < limits.max) above = 0.02;
                m_drag.send(ctx, line,
                            dragged_value(axis, value, static_cast<double>(along_x ? extent.x : extent.y),
                                          limits, signal.unit == "tokens"));
            }
            const ImVec2 at = along_x ? ImVec2(ImPlot::PlotToPixels(line.value, bottom()).x, low.y)
                                      : ImVec2(low.x, ImPlot::PlotToPixels(0.0, line.value).y);
            ctx.landmarks.set(fmt::format("distribution/threshold/{}", line.trigger),
                              along_x ? Landmarks::Box{at.x - 1, low.y, 2, extent.y}
                                      : Landmarks::Box{low.x, at.y - 1, extent.x, 2});
            if (hovered || held) draw_tag(ctx, signal, line, at);
        }
        axis.widen(below, above);
        return any;
    }

    /// The value of a line under the mouse, beside it: hollow until the engine has it, as in Signals.
    /// \param at  where the line begins: at the left or the upper edge
    static void draw_tag(const UiContext& ctx, const Signal& signal, const ThresholdLine& line, ImVec2 at) {
        const ImU32 colour = ctx.theme.signal(signal.name);
        const std::string text = format_value(line.value, signal.unit);
        const float room = ImGui::GetTextLineHeight() * 0.3F;
        const ImVec2 low = ImPlot::GetPlotPos(), extent = ImPlot::GetPlotSize();
        const ImVec2 size(ImGui::CalcTextSize(text.c_str()).x + 2 * room, ImGui::GetTextLineHeight() + 2);
        const bool right = at.x + 4 + size.x <= low.x + extent.x,
                   below = at.y + 4 + size.y <= low.y + extent.y;
        const ImVec2 a(std::max(low.x, right ? at.x + 4 : at.x - 4 - size.x),
                       std::max(low.y, below ? at.y + 4 : at.y - 4 - size.y)),
            b(a.x + size.x, a.y + size.y);
        ImDrawList* list = ImPlot::GetPlotDrawList();
        list->AddRectFilled(a, b, line.pending ? ctx.theme.plot_background : colour, room);
        if (line.pending) list->AddRect(a, b, colour, room, 1.5F);
        list->AddText({a.x + room, a.y + 1}, line.pending ? colour : readable_on(colour), text.c_str());
    }

    /// Bars in the signal's colour; the part that some enabled trigger would fire on is full, the rest pale.
    void draw_bars(UiContext& ctx, const Histogram& bins, const std::vector<ThresholdLine>& lines) const {
        ImDrawList* list = ImPlot::GetPlotDrawList();
        const ImU32 colour = ctx.theme.signal(info().name);
        ImPlot::PushPlotClipRect();
        for (size_t i = 0; i < bins.counts.size(); ++i) {
            if (bins.counts[i] == 0) continue;
            const double from = bins.low + bins.width * static_cast<double>(i), to = from + bins.width;
            const ImVec2 a = ImPlot::PlotToPixels(from, bins.counts[i]),
                         b = ImPlot::PlotToPixels(to, bottom());
            const float gap = b.x - a.x > 4 ? 1.0F : 0.0F;
            // A bar of one step in a thousand is still seen.
            const ImVec2 low(a.x, std::min(a.y, b.y - 2)), high(std::max(b.x - gap, a.x + 1), b.y);
            list->AddRectFilled(low, high, with_alpha(colour, lines.empty() ? 0.75F : 0.32F));
            for (const ThresholdLine& line : lines) {
                if (!line.enabled || !std::isfinite(line.value)) continue;
                const bool up =
                    line.comparison == Comparison::above || line.comparison == Comparison::at_least;
                const float at = std::clamp(ImPlot::PlotToPixels(line.value, bottom()).x, low.x, high.x);
                const float left = up ? at : low.x, right = up ? high.x : at;
                if (right > left)
                    list->AddRectFilled({left, low.y}, {right, high.y}, with_alpha(colour, 0.75F));
            }
        }
        ImPlot::PopPlotClipRect();
    }

    /// Where the bars stand: a logarithmic scale has no 0, and a count of 1 must have a height.
    [[nodiscard]] double bottom() const { return m_log ? 0.5 : 0; }

    void hover(const Histogram& bins) const {
        const double x = ImPlot::GetPlotMousePos().x;
        const double bin = std::floor((x - bins.low) / bins.width);
        if (bin < 0 || bin >= static_cast<double>(bins.counts.size())) return;
        const double from = bins.low + bin * bins.width;
        const auto count = static_cast<int64_t>(bins.counts[static_cast<size_t>(bin)]);
        ImGui::SetTooltip("%s to %s: %s %s", format_tick(from, bins.width).c_str(),
                          format_value(from + bins.width, info().unit).c_str(),
                          format_thousands(count).c_str(), count == 1 ? "step" : "steps");
    }

    static void number_row(const UiContext& ctx, const std::string& label, const std::string& value,
                           const std::string& help = {}) {
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
        ImGui::TextUnformatted(label.c_str());
        ImGui::PopStyleColor();
        if (!help.empty()) ImGui::SetItemTooltip("%s", help.c_str());
        ImGui::SameLine();
        text_right_aligned(value, content_right());
    }

    static std::string percent(int64_t part, int64_t of) {
        return of > 0 ? format_number(100.0 * static_cast<double>(part) / static_cast<double>(of)) + " %"
                      : "-";
    }

    void draw_numbers(UiContext& ctx, const std::vector<ThresholdLine>& lines) const {
        const SignalStatistics& s = m_statistics;
        const auto row = [&](const std::string& label, const std::string& value,
                             const std::string& help = {}) { number_row(ctx, label, value, help); };
        row("steps", s.steps() > 0
                         ? fmt::format("{} to {}", format_thousands(s.first), format_thousands(s.last))
                         : "none");
        row("measured",
            fmt::format("{}, {}", format_thousands(s.measured()), percent(s.measured(), s.steps())));
        if (s.not_finite > 0) row("no finite number", format_thousands(s.not_finite));
        for (const ThresholdLine& line : lines) {
            const int64_t beyond = count_beyond(s.sorted, line.comparison, line.value);
            row(fmt::format("{} {}", to_string(line.comparison), format_value(line.value, info().unit)),
                fmt::format("{}, {}", format_thousands(beyond),
                            percent(beyond, static_cast<int64_t>(s.sorted.size()))),
                "Measured values that this trigger's threshold lets through; stride, cool-down and budget do "
                "not count here");
            ctx.landmarks.set_text(fmt::format("distribution/beyond/{}", line.trigger),
                                   fmt::to_string(beyond));
        }
        if (s.mean) {
            row(s.sd ? "mean +- sd" : "mean",
                s.sd ? fmt::format("{} +- {}", format_number(*s.mean), format_number(*s.sd))
                     : format_number(*s.mean));
            const auto at = [&](double q) { return format_number(quantile_of_sorted(s.sorted, q)); };
            row("median", at(0.5));
            row("90, 95, 99 %", fmt::format("{}, {}, {}", at(0.9), at(0.95), at(0.99)),
                "Percentiles, by linear interpolation between order statistics");
            row("smallest, largest",
                fmt::format("{}, {}", format_number(s.sorted.front()), format_number(s.sorted.back())));
        }
        row("refreshes",
            s.refreshes > 0
                ? fmt::format("{}, {} ms", format_thousands(s.refreshes), format_number(s.refresh_ms))
                : "none",
            "Those that landed in these steps, and their teacher passes, splices and redraws together");
        if (s.step_ms)
            row("a step", fmt::format("{} ms", format_number(*s.step_ms)), "Mean, everything included");
    }

    size_t m_signal = 0;
    bool m_chosen = false, m_in_sight = false, m_log = true;
    Known m_known;
    double m_when = 0;
    SignalStatistics m_statistics;
    ThresholdDrag m_drag;
    ValueAxis m_axis; ///< of the values, from left to right

    std::optional<size_t> m_other; ///< the signal of the second dimension
    SignalPairs m_pairs;
    PairHistogram m_cells;
    std::array<int, 2> m_cells_for{}; ///< columns and rows that m_cells was made for; 0: to be made
    ValueAxis m_other_axis;           ///< from below upward
};

} // namespace

std::unique_ptr<Panel> make_distribution_panel() {
    return std::make_unique<DistributionPanel>();
}

} // namespace refreshlab::ui
