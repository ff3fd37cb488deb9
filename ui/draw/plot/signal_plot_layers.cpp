// A layered signal in its plot: the choice among its layers, and all of them as a heat strip.
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/plot/layer_choice.h"
#include "ui/draw/plot/signal_plot.h"
#include "ui/draw/screen_canvas.h"
#include "ui/draw/text.h"
#include "ui/draw/tooltips.h"
#include "ui/figure/paint/map_parts.h"
#include "ui/scene/text/token_label.h"

#include <fmt/format.h>
#include <implot.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {
namespace {

int64_t layer_count(const UiContext& ctx) {
    return ctx.recording ? ctx.recording->info().layers : ctx.status->student.layers;
}

} // namespace

void draw_layer_items(const UiContext& ctx, LayerPick& pick) {
    const auto item = [&](const LayerPick& choice, const char* help) {
        if (ImGui::MenuItem(to_string(choice).c_str(), nullptr, pick == choice)) pick = choice;
        if (help) ImGui::SetItemTooltip("%s", help);
    };
    item({}, "The mean over the layers");
    item({.reduction = Reduction::max}, "The largest of the layers");
    item({.reduction = Reduction::min}, "The smallest of the layers");
    item({.strip = true}, "All layers as a strip of colours, one row each");
    ImGui::Separator();
    for (int32_t layer = 0; layer < layer_count(ctx); ++layer)
        item({.reduction = Reduction::layer, .layer = layer}, nullptr);
}

void draw_layer_choice(const UiContext& ctx, LayerPick& pick, float width) {
    ImGui::SetNextItemWidth(width);
    if (ImGui::BeginCombo("##layers", to_string(pick).c_str(), ImGuiComboFlags_HeightLarge)) {
        draw_layer_items(ctx, pick);
        ImGui::EndCombo();
    } else {
        ImGui::SetItemTooltip("What the plot shows of the layers. Layers count from 0");
    }
}

/// Every layer a row, every step a cell, with the texture's cells sharp on the steps.
void SignalPlot::draw_strip(UiContext& ctx, double width_px) {
    m_strip.update(ctx.recording, m_signal, ctx.steps, ctx.time.x_min, ctx.time.x_max, width_px);
    if (m_strip.columns() < 1 || m_strip.layers() < 1) return;
    const auto map = colour_map(ctx.theme.map_amounts);
    const bool other_map = map.data() != m_strip_scale.map.data();
    m_strip_scale.map = map;
    m_strip_scale.min = static_cast<double>(m_strip.lowest());
    m_strip_scale.max = static_cast<double>(m_strip.highest());
    if (m_strip_colours != m_strip.revision() || other_map) {
        m_strip_colours = m_strip.revision();
        ++m_strip_drawn;
        m_strip_pixels = strip_cells(m_strip, m_strip_scale);
    }
    const ImVec2 low = ImPlot::GetPlotPos(), extent = ImPlot::GetPlotSize();
    const ImPlotRange steps = ImPlot::GetPlotLimits().X;
    const PlotArea area{figure_rect({low.x, low.y, extent.x, extent.y}), steps.Min, steps.Max, {}};
    const std::string key = fmt::format("signals/strip/{}", info().name);
    paint_strip(ScreenPen(ctx, ImPlot::GetPlotDrawList()), area, m_strip,
                {.width = m_strip.columns(),
                 .height = m_strip.layers(),
                 .rgba = m_strip_pixels,
                 .key = key,
                 .revision = m_strip_drawn},
                ctx.steps);
}

/// "0.21 [colours] 3.4 bits" at the right end of the header.
void SignalPlot::draw_strip_range(UiContext& ctx, ImVec2 at, float x, float right) {
    if (!m_strip.any()) return;
    ImDrawList* list = ImGui::GetWindowDrawList();
    const std::string low = three_digits(m_strip_scale.min), high = three_digits(m_strip_scale.max);
    const float line = ImGui::GetTextLineHeight(), gap = line * 0.4F;
    const float low_width = text_width(low), high_width = text_width(high);
    // Shorter where room is short; then without its lower number, which is near 0.
    const float room = right - x - high_width - gap;
    const bool both = room - low_width - gap >= line * 1.5F;
    const float bar = std::clamp(room - (both ? low_width + gap : 0), line, line * 5);
    float left = right - high_width - gap - bar;
    if (both) list->AddText({left - gap - low_width, at.y + 3}, ctx.theme.text_muted, low.c_str());
    constexpr int pieces = 48;
    const float top = at.y + 3 + line * 0.2F, bottom = at.y + 3 + line * 0.8F;
    for (int i = 0; i < pieces; ++i)
        list->AddRectFilled({left + bar * static_cast<float>(i) / pieces, top},
                            {left + bar * static_cast<float>(i + 1) / pieces, bottom},
                            m_strip_scale.colour((i + 0.5) / pieces));
    list->AddText({left + bar + gap, at.y + 3}, ctx.theme.text_muted, high.c_str());
    ctx.landmarks.set({left, top, bar, bottom - top}, "signals/strip_range/{}", info().name);
}

void SignalPlot::strip_tooltip(const UiContext& ctx, const PlotStack& stack, int64_t step,
                               double layer) const {
    const auto row = static_cast<int64_t>(std::llround(layer));
    const std::span<const float> values = ctx.recording->layer_values(step, m_signal);
    if (row < 0 || row >= m_strip.layers() || !begin_plot_tip(stack.tips)) return;
    ImGui::TextUnformatted(step_caption(*ctx.recording, ctx.steps, step).c_str());
    const std::string unit(info().unit);
    const auto say = [&](const std::string& name, float value) {
        ImGui::Text("%s: %s", name.c_str(),
                    is_absent(value) ? "not measured" : format_signal(value, unit).c_str());
    };
    const LayerPick one{.reduction = Reduction::layer, .layer = static_cast<int32_t>(row)};
    say(to_string(one), reduce_layers(values, one.reduction, one.layer));
    say("mean", reduce_layers(values, Reduction::mean));
    end_plot_tip();
}

} // namespace refreshlab::ui
