#include "engine/base/quantile.h"
#include "ui/format.h"
#include "ui/panels/panel.h"
#include "ui/plot/distribution.h"
#include "ui/plot/refresh_marks.h"
#include "ui/plot/signal_plot.h"
#include "ui/plot/threshold_drag.h"
#include "ui/plot/time_view.h"
#include "ui/plot/value_format.h"
#include "ui/widgets.h"

#include <fmt/format.h>
#include <implot.h>

#include <algorithm>
#include <cmath>
#include <memory>

namespace refreshlab::ui {
namespace {

/// Up to here a frame may work the statistics out anew whenever a step has come.
constexpr int64_t immediate_steps = 8000;
/// Longer runs: so many seconds between two times.
constexpr double pause = 0.5;

/// Histogram of one signal with the thresholds of its triggers in it, and its numbers: over the whole run, or over the
/// steps that the plots show.
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
        const float em = ImGui::GetFontSize(), row = ImGui::GetTextLineHeightWithSpacing();
        const auto rows = 7.0F + static_cast<float>(lines.size());
        const ImVec2 room = ImGui::GetContentRegionAvail();
        const bool beside = room.x > em * 26;
        // One below the other the plot keeps a readable height, and the numbers scroll.
        const float height = beside ? room.y : std::max(room.y - rows * row, em * 7);
        draw_plot(ctx, lines, ImVec2(beside ? room.x - em * 14.5F : -1, height));
        if (beside) ImGui::SameLine();
        if (ImGui::BeginChild("##numbers")) draw_numbers(ctx, lines);
        ImGui::EndChild();
        m_drag.end_frame(ctx);
    }

private:
    /// What the statistics were worked out for.
    struct Known {
        const Recording* recording = nullptr;
        size_t signal = 0, back_fills = 0;
        int64_t steps = 0, first = 0, last = 0;
        friend bool operator==(const Known&, const Known&) = default;
    };

    [[nodiscard]] const Signal& info() const { return signals()[m_signal]; }

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
    }

    void update(UiContext& ctx) {
        const StepRange sight = steps_in_sight(ctx.time, ctx.steps);
        const Known wanted = {ctx.recording.get(),
                              m_signal,
                              ctx.recording->back_fills().size(),
                              ctx.steps,
                              m_in_sight ? sight.first : 1,
                              m_in_sight ? sight.last : ctx.steps};
        if (wanted == m_known) return;
        const bool same_question =
            wanted.recording == m_known.recording && wanted.signal == m_known.signal && !m_in_sight;
        if (same_question && ctx.steps > immediate_steps && ImGui::GetTime() < m_when + pause) {
            ctx.host.keep_awake(pause);
            return;
        }
        m_known = wanted;
        m_when = ImGui::GetTime();
        m_statistics = signal_statistics(*ctx.recording, ctx.steps, m_signal, wanted.first, wanted.last);
    }

    void draw_plot(UiContext& ctx, const std::vector<ThresholdLine>& lines, ImVec2 size) {
        const float em = ImGui::GetFontSize();
        const bool whole = info().unit == "tokens";
        const float width = size.x > 0 ? size.x : ImGui::GetContentRegionAvail().x + size.x;
        const Histogram bins =
            histogram(m_statistics.sorted, std::clamp(static_cast<int>(width / (em * 0.55F)), 8, 80), whole);
        std::vector<double> thresholds;
        for (const ThresholdLine& line : lines)
            thresholds.push_back(line.value);
        std::optional<ValueRange> data;
        if (!bins.counts.empty()) data = ValueRange{bins.low, bins.high()};
        // A range that moved with the line would run away under the mouse.
        if (m_drag.key().empty()) {
            const ValueRange range =
                auto_range(data, thresholds, usual_range(info(), ctx.recording->info().vocab_size));
            m_axis.min = range.min;
            m_axis.max = range.max;
        }
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
            const bool on_line = draw_lines(ctx, lines);
            const ImVec2 low = ImPlot::GetPlotPos(), extent = ImPlot::GetPlotSize();
            ctx.landmarks.set("distribution/plot", {low.x, low.y, extent.x, extent.y});
            if (bins.counts.empty()) {
                const char* what = m_statistics.not_finite > 0 ? "no finite value" : "not measured here";
                const ImVec2 text = ImGui::CalcTextSize(what);
                ImPlot::GetPlotDrawList()->AddText(
                    {low.x + (extent.x - text.x) / 2, low.y + (extent.y - text.y) / 2}, ctx.theme.text_muted,
                    what);
            }
            if (ImPlot::IsPlotHovered() && !on_line) hover(bins);
            ImPlot::EndPlot();
        }
        ImPlot::PopStyleVar(2);
    }

    /// The thresholds, to be dragged as in Signals. \return true: the mouse is on one, or holds it
    bool draw_lines(UiContext& ctx, const std::vector<ThresholdLine>& lines) {
        const ImU32 colour = ctx.theme.signal(info().name);
        const float scale = std::max(1.0F, ImGui::GetFontSize() / 16);
        const ImVec2 low = ImPlot::GetPlotPos(), extent = ImPlot::GetPlotSize();
        bool any = false;
        double below = 0, above = 0; // a drag beyond the edge widens the range for the next frame
        for (const ThresholdLine& line : lines) {
            const bool is_held = m_drag.key() == line.key;
            if (!std::isfinite(line.value)) continue;
            if ((line.value < m_axis.min || line.value > m_axis.max) && !is_held) continue;
            const ImU32 ink = with_alpha(colour, line.enabled ? 1.0F : 0.45F);
            double x = line.value;
            bool clicked = false, hovered = false, held = false;
            const bool no_input = m_drag.holds_another(line);
            ImPlot::DragLineX(static_cast<int>(line.trigger), &x, ImGui::ColorConvertU32ToFloat4(ink),
                              (is_held ? 2.2F : 1.6F) * scale,
                              ImPlotDragToolFlags_NoFit | ImPlotDragToolFlags_Delayed |
                                  (no_input ? ImPlotDragToolFlags_NoInputs : ImPlotDragToolFlags_None),
                              &clicked, &hovered, &held);
            any |= hovered || held;
            if (!no_input && m_drag.update(ctx, line, held)) {
                const float mouse = ImGui::GetMousePos().x;
                const DragLimits limits = drag_limits(line, info().name);
                if (mouse < low.x && m_axis.min > limits.min) below = 0.02;
                if (mouse > low.x + extent.x && m_axis.max < limits.max) above = 0.02;
                m_drag.send(
                    ctx, line,
                    dragged_value(m_axis, x, static_cast<double>(extent.x), limits, info().unit == "tokens"));
            }
            const float at = ImPlot::PlotToPixels(line.value, bottom()).x;
            ctx.landmarks.set(fmt::format("distribution/threshold/{}", line.trigger),
                              {at - 1, low.y, 2, extent.y});
            if (hovered || held) draw_tag(ctx, line, at);
        }
        m_axis.widen(below, above);
        return any;
    }

    /// The value of a line under the mouse, beside it: hollow until the engine has it, as in Signals.
    void draw_tag(const UiContext& ctx, const ThresholdLine& line, float at) const {
        const ImU32 colour = ctx.theme.signal(info().name);
        const std::string text = format_value(line.value, info().unit);
        const float room = ImGui::GetTextLineHeight() * 0.3F;
        const ImVec2 low = ImPlot::GetPlotPos(), extent = ImPlot::GetPlotSize();
        const ImVec2 size(ImGui::CalcTextSize(text.c_str()).x + 2 * room, ImGui::GetTextLineHeight() + 2);
        const bool right = at + 4 + size.x <= low.x + extent.x;
        const ImVec2 a(std::max(low.x, right ? at + 4 : at - 4 - size.x), low.y + 3),
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

    void draw_numbers(UiContext& ctx, const std::vector<ThresholdLine>& lines) const {
        const SignalStatistics& s = m_statistics;
        const auto row = [&](const std::string& label, const std::string& value,
                             const std::string& help = {}) {
            ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
            ImGui::TextUnformatted(label.c_str());
            ImGui::PopStyleColor();
            if (!help.empty()) ImGui::SetItemTooltip("%s", help.c_str());
            ImGui::SameLine();
            text_right_aligned(value, content_right());
        };
        const auto percent = [](int64_t part, int64_t of) {
            return of > 0 ? format_number(100.0 * static_cast<double>(part) / static_cast<double>(of)) + " %"
                          : std::string("-");
        };
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
};

} // namespace

std::unique_ptr<Panel> make_distribution_panel() {
    return std::make_unique<DistributionPanel>();
}

} // namespace refreshlab::ui
