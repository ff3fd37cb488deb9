// The line above the text: which signal colours it, and the scale.
#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/colour_bar.h"
#include "ui/panels/text/text_panel.h"
#include "ui/scene/axes/auto_range.h"
#include "ui/scene/maps/colour_maps.h"
#include "ui/scene/marks/token_origins.h"
#include "ui/scene/series/series_set.h"
#include "ui/scene/text/text_layout.h"
#include "ui/scene/text/token_colours.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <optional>
#include <string>

namespace refreshlab::ui {

/// "120 right, 14 wrong". Cost: one look at every step.
std::string TextPanel::count_verdicts(const UiContext& ctx, size_t signal) {
    if (!ctx.recording || ctx.steps == 0) return {};
    const SignalSeries& series = m_series.series(signal);
    if (!series.any_measured()) return std::string(m_verdicts->neither);
    const VerdictCount count = ui::count_verdicts(*ctx.recording, ctx.steps, signal);
    return fmt::format("{} {}, {} {}", format_thousands(count.yes), m_verdicts->yes,
                       format_thousands(count.no), m_verdicts->no);
}

void TextPanel::draw_toolbar(UiContext& ctx) {
    const auto id = ctx.signal_id(ctx.coloured_signal);
    m_verdicts = verdicts_of(ctx.coloured_signal);
    const float row = ImGui::GetContentRegionAvail().x, font = ImGui::GetFontSize();
    const float spacing = ImGui::GetStyle().ItemSpacing.x, inner = ImGui::GetStyle().ItemInnerSpacing.x;
    // The bar with its numbers keeps its width; the list takes what is left, the caption goes first where room is short.
    const bool gain = by_gain(ctx), attention = by_attention(ctx);
    const std::string unit = gain ? "nats" : id ? std::string(ctx.signals()[*id].unit) : std::string();
    const std::string counted = m_verdicts && id ? count_verdicts(ctx, *id) : std::string();
    const float numbers = m_verdicts ? ImGui::CalcTextSize(counted.c_str()).x
                                     : ImGui::CalcTextSize(format_value(m_scale.min, "").c_str()).x +
                                           ImGui::CalcTextSize(format_value(m_scale.max, unit).c_str()).x +
                                           2 * inner;
    const float bar = m_verdicts ? 0 : std::clamp(row * 0.18F, font * 2.5F, font * 7);
    const char* caption = "Colour by";
    const float caption_width = ImGui::CalcTextSize(caption).x + spacing;
    const bool with_caption = row - bar - numbers - spacing - caption_width > font * 9;
    if (with_caption) {
        ImGui::AlignTextToFramePadding();
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
        ImGui::TextUnformatted(caption);
        ImGui::PopStyleColor();
        ImGui::SameLine();
    }
    const float left_over = row - bar - numbers - spacing - (with_caption ? caption_width : 0);
    const bool beside = left_over > font * 6;
    ImGui::SetNextItemWidth(beside ? std::min(left_over, font * 15) : row);
    draw_signal_list(ctx, id);
    if (m_range_signal != ctx.coloured_signal) {
        m_range.reset();
        m_range_signal = ctx.coloured_signal;
    }
    if (!id && !gain && !attention) return;
    if (gain)
        update_gain_scale(ctx);
    else if (attention)
        update_attention(ctx);
    else
        update_scale(ctx, *id);
    if (beside) ImGui::SameLine();
    if (gain)
        draw_bar(ctx, ctx.theme.accent, "nats", bar);
    else if (attention)
        draw_bar(ctx, ctx.theme.signal("entropy_bits"), "", bar);
    else
        draw_scale(ctx, *id, bar, counted);
}

/// What the landscape says, among the signals.
void TextPanel::draw_gain_choice(UiContext& ctx) {
    const bool there = !ctx.refresh_gains.empty();
    ImGui::BeginDisabled(!there && !by_gain(ctx));
    if (ImGui::Selectable("Gain of a refresh before (nats)", by_gain(ctx)))
        ctx.coloured_signal = gain_colouring;
    ImGui::EndDisabled();
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
        ImGui::SetTooltip("%s", there ? "What a refresh before this token would have saved over the next 32 "
                                        "steps, as the landscape "
                                        "of this text says"
                                      : "The panel Landscape computes it");
}

/// From 0, where a refresh is worth nothing, to the largest gain; what it would cost counts as 0.
void TextPanel::update_gain_scale(const UiContext& ctx) {
    m_scale.min = 0;
    m_scale.max = 1e-6;
    for (const float gain : ctx.refresh_gains)
        if (!is_absent(gain)) m_scale.max = std::max(m_scale.max, static_cast<double>(gain));
}

void TextPanel::draw_signal_list(UiContext& ctx, std::optional<size_t> id) {
    std::string current = by_attention(ctx) ? "Read by the shown step"
                          : by_gain(ctx)    ? "Gain of a refresh before"
                          : id              ? with_unit(ctx.signals()[*id].label, ctx.signals()[*id].unit)
                                            : ctx.coloured_signal;
    // In a narrow panel without its unit: that stands at the end of the bar as well.
    if (id && ImGui::CalcTextSize(current.c_str()).x + ImGui::GetFrameHeight() + ImGui::GetFontSize() >
                  ImGui::CalcItemWidth())
        current = ctx.signals()[*id].label;
    if (ImGui::BeginCombo("##signal", current.c_str(), ImGuiComboFlags_HeightLarge)) {
        for (size_t i = 0; i < ctx.signals().size(); ++i) {
            const Signal& s = ctx.signals()[i];
            const bool empty = !ctx.recording || !m_series.series(i).any_measured();
            std::string label = with_unit(s.label, s.unit);
            if (empty) label += ", not measured";
            if (ImGui::Selectable(label.c_str(), id == i)) ctx.coloured_signal = s.name;
            ImGui::SetItemTooltip("%s\nCost: %s", std::string(s.description).c_str(),
                                  std::string(s.cost_hint).c_str());
        }
        draw_gain_choice(ctx);
        draw_attention_choices(ctx);
        ImGui::Separator();
        ImGui::Checkbox("Underline by cache origin", &m_show_origin);
        ImGui::SetItemTooltip(
            "Who wrote the cache entry of each token: the student, or the teacher at a refresh");
        ImGui::EndCombo();
    }
}

/// The range of the run so far: it widens by itself.
void TextPanel::update_scale(const UiContext& ctx, size_t id) {
    if (ctx.recording && ctx.steps > 0) {
        const SeriesSummary all = m_series.series(id).summary(1, ctx.steps);
        if (all.finite > 0) {
            m_range.include(static_cast<double>(all.min));
            m_range.include(static_cast<double>(all.max));
        }
    }
    m_scale.min = m_range.range().min;
    m_scale.max = m_range.range().max;
}

/// Words and counts of a yes or no, or the bar of the colours.
void TextPanel::draw_scale(UiContext& ctx, size_t id, float bar, const std::string& counted) {
    const ImU32 background = ImGui::GetColorU32(ImGuiCol_WindowBg) | IM_COL32_A_MASK;
    if (m_verdicts) {
        ImGui::AlignTextToFramePadding();
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
        ImGui::TextUnformatted(counted.c_str());
        ImGui::PopStyleColor();
        if (ImGui::IsItemHovered())
            ImGui::SetTooltip("Tokens of the run so far: %s, %s", std::string(m_verdicts->yes).c_str(),
                              std::string(m_verdicts->no).c_str());
        for (const bool yes : {false, true})
            m_verdict_colours[yes ? 1 : 0] =
                TokenColours::entry(verdict_colour(yes), background, ctx.theme.text);
        return;
    }
    draw_bar(ctx, ctx.theme.signal(ctx.signals()[id].name), ctx.signals()[id].unit, bar); // as its curve
}

void TextPanel::draw_bar(UiContext& ctx, Colour hue, std::string_view unit, float bar) {
    const ImU32 background = ImGui::GetColorU32(ImGuiCol_WindowBg) | IM_COL32_A_MASK;
    if (!m_colours.matches(hue, background, ctx.theme.text)) m_colours.build(hue, background, ctx.theme.text);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    draw_colour_bar("##range", m_scale, bar, unit, &m_colours);
    ctx.landmarks.set("text/scale", {at.x, at.y, ImGui::GetItemRectSize().x, ImGui::GetItemRectSize().y});
    if (ImGui::IsItemHovered()) {
        ImGui::SetTooltip(
            "Range of the run so far; it widens by itself.\nClick to fit it to the values again.");
        if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) m_range.reset();
    }
}

} // namespace refreshlab::ui
