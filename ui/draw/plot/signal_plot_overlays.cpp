// Ticked runs over a plot of the Signals panel: their curves, and strips of what differs.
#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/plot/signal_plot.h"
#include "ui/draw/text.h"

#include <fmt/format.h>
#include <implot.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

namespace {

constexpr size_t most_strips = 3;  // more runs have curves alone
constexpr float column_px = 3;     // of a strip
constexpr const char* strip_help = // what the colours say
    "Difference of this signal at each step: %s - %s\n%s\nColours reach from -%s to +%s%s%s";

/// The pick of the signal in that run, which may have fewer layers.
LayerPick pick_in(const Recording& recording, LayerPick pick) {
    return within(pick, recording.info().layers);
}

} // namespace

Colour SignalPlot::curve_colour(const UiContext& ctx, const PlotStack& stack) const {
    const auto own = stack.overlays ? stack.overlays->own_colour() : std::nullopt;
    if (!own) return ctx.theme.signal(info().name);
    return m_on_right ? with_alpha(*own, 0.55F) : *own; // one run, two curves: the one on the right is paler
}

/// The visible range of all runs together.
SeriesSummary SignalPlot::seen_of_all(const UiContext& ctx, PlotStack& stack) const {
    SeriesSummary seen = stack.series.seen(m_signal, ctx.time.x_min, ctx.time.x_max, m_pick);
    if (shows_rejected(ctx))
        seen.widen(m_rejected.series().summary(static_cast<int64_t>(std::ceil(ctx.time.x_min)),
                                               static_cast<int64_t>(std::floor(ctx.time.x_max))));
    if (!stack.overlays) return seen;
    for (const RunOverlay& run : stack.overlays->runs()) {
        const auto id = run.recording->signal_id(info().name);
        if (!id) continue;
        const auto shift = static_cast<double>(run.shift);
        seen.widen(run.series->seen(*id, ctx.time.x_min - shift, ctx.time.x_max - shift,
                                    pick_in(*run.recording, m_pick)));
    }
    return seen;
}

void SignalPlot::draw_overlays(UiContext& ctx, PlotStack& stack, double width_px) {
    if (!stack.overlays) return;
    for (const RunOverlay& run : stack.overlays->runs()) {
        const auto id = run.recording->signal_id(info().name);
        if (!id) continue;
        const auto shift = static_cast<double>(run.shift);
        decimate(run.series->series(*id, pick_in(*run.recording, m_pick)), ctx.time.x_min - shift,
                 ctx.time.x_max - shift, width_px, m_path);
        clip_to_axis(m_axis, m_path);
        for (auto* xs : {&m_path.x, &m_path.stair_x, &m_path.marker_x})
            for (double& x : *xs)
                x += shift;
        ImGui::PushID(static_cast<int>(run.key));
        draw_path(with_alpha(run.colour, m_on_right ? 0.45F : 0.85F), 1.0F);
        ImGui::PopID();
    }
}

float SignalPlot::strip_height() {
    return std::round(ImGui::GetFontSize() * 0.5F);
}

/// As many as there are runs, values, and room: the curves come first.
size_t SignalPlot::num_strips(PlotStack& stack, float height) const {
    if (!stack.overlays || m_pick.strip || !has_data(stack.series)) return 0;
    const float room = height - header_height() - 3 * ImGui::GetFontSize();
    const auto fit = static_cast<size_t>(std::max(0.0F, room / strip_height()));
    return std::min({stack.overlays->runs().size(), most_strips, fit});
}

/// One strip a run, above the plot: where it lies above the run that is looked at, and where below. A column of several steps shows
/// the largest difference.
void SignalPlot::draw_strips(UiContext& ctx, PlotStack& stack, ImVec2 at, size_t strips) {
    if (strips == 0 || stack.width <= 0 || !ctx.recording) return;
    const float row = strip_height();
    ImDrawList* list = ImGui::GetWindowDrawList();
    const double per_px = (ctx.time.x_max - ctx.time.x_min) / static_cast<double>(stack.width);
    for (size_t i = 0; i < strips; ++i) {
        const RunOverlay& run = stack.overlays->runs()[i];
        const auto id = run.recording->signal_id(info().name);
        const float top = at.y + static_cast<float>(i) * row, foot = top + row - 1;
        const float right = stack.left + stack.width;
        list->AddRectFilled({stack.left, top}, {right, foot}, ctx.theme.absent_a);
        list->AddRectFilled({stack.left - 4, top}, {stack.left - 1, foot}, run.colour);
        if (!id) continue;
        DifferenceSeries& difference = m_differences[run.key];
        difference.update({ctx.recording, ctx.steps, m_signal}, {run.recording, run.steps, *id},
                          pick_in(*run.recording, m_pick), run.shift);
        const double largest = std::max(difference.largest(), 1e-30);
        const ColourScale scale{.map = colour_map(ctx.theme.map_signed), .min = -largest, .max = largest};
        for (float x = stack.left; x < right; x += column_px) {
            const double from = ctx.time.x_min + static_cast<double>(x - stack.left) * per_px;
            const double to = from + static_cast<double>(column_px) * per_px;
            // Steps whose middle is in the column; of wide steps the one that the column lies in.
            auto first = static_cast<int64_t>(std::ceil(from)), last = static_cast<int64_t>(std::floor(to));
            if (last < first) first = last = std::llround((from + to) / 2);
            const SeriesSummary values = difference.series().summary(first, last);
            if (values.finite == 0) continue;
            const double value =
                static_cast<double>(std::fabs(values.max) >= std::fabs(values.min) ? values.max : values.min);
            list->AddRectFilled({x, top}, {std::min(x + column_px, right), foot}, scale(value));
        }
        list->AddRect({stack.left - 0.5F, top - 0.5F}, {right + 0.5F, foot + 0.5F}, ctx.theme.plot_border);
        ctx.landmarks.set({stack.left, top, stack.width, foot - top}, "signals/difference/{}/{}", info().name,
                          run.key);
        if (ImGui::IsMouseHoveringRect({stack.left, top}, {right, foot}) && ImGui::IsWindowHovered())
            strip_tooltip_of(ctx, difference, run, per_px, stack.left);
    }
}

/// What the difference is under the mouse.
void SignalPlot::strip_tooltip_of(UiContext& ctx, const DifferenceSeries& difference, const RunOverlay& run,
                                  double per_px, float left) {
    const int64_t step =
        std::llround(ctx.time.x_min + static_cast<double>(ImGui::GetMousePos().x - left) * per_px);
    const float here =
        step >= 1 && step <= difference.series().size() ? difference.series().at(step) : absent();
    const std::string most = format_value(difference.largest(), "");
    const std::string said = is_absent(here)
                                 ? fmt::format("step {}: not known of both", format_thousands(step))
                                 : fmt::format("step {}: {}{}", format_thousands(step), here >= 0 ? "+" : "",
                                               format_value(static_cast<double>(here), info().unit));
    ImGui::SetTooltip(strip_help, run.name.c_str(), ctx.runs.name(*ctx.runs.looked_at()).c_str(),
                      said.c_str(), most.c_str(), most.c_str(), info().unit.empty() ? "" : " ",
                      std::string(info().unit).c_str());
    if (step >= 1 && step <= ctx.steps) {
        ctx.next_hovered_step = step;
        if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) ctx.select_step(step);
    }
}

} // namespace refreshlab::ui
