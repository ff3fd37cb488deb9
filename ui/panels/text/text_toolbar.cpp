// The line above the text: what colours it, and the scale.
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/panels/text/text_panel.h"
#include "ui/scene/landscape/cell_values.h"
#include "ui/scene/maps/colour_maps.h"
#include "ui/scene/theme/text_hue.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <string>

namespace refreshlab::ui {

void TextPanel::draw_toolbar(UiContext& ctx) {
    using By = ColouredText::By;
    m_coloured.update(ctx.recording, ctx.steps, ctx.views.text,
                      {ctx.refresh_gains,
                       ctx.shown_step(),
                       {ctx.selection.layer, ctx.selection.head},
                       ctx.gains_objective});
    m_paint.mix(text_hue(ctx.theme, m_coloured), ImGui::GetColorU32(ImGuiCol_WindowBg) | IM_COL32_A_MASK,
                ctx.theme.text);
    const float row = ImGui::GetContentRegionAvail().x, font = ImGui::GetFontSize();
    const float spacing = ImGui::GetStyle().ItemSpacing.x;
    // The bar with its numbers keeps its width; the list takes what is left, the caption goes first where room is short.
    const bool verdicts = m_coloured.verdicts() != nullptr;
    const std::string counted = m_coloured.counted();
    const float numbers =
        verdicts ? ImGui::CalcTextSize(counted.c_str()).x : RangeBar::numbers_width(shown_range());
    const float bar = verdicts ? 0 : std::clamp(row * 0.18F, font * 2.5F, font * 7);
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
    draw_signal_list(ctx);
    if (m_coloured.by() == By::nothing) return;
    if (beside) ImGui::SameLine();
    draw_scale(ctx, bar, counted);
}

/// What the landscape says, among the signals.
void TextPanel::draw_gain_choice(UiContext& ctx) {
    const CellValue gain{CellValue::Kind::gain, {}, ctx.gains_objective};
    const bool there = !ctx.refresh_gains.empty(), chosen = ctx.views.text.coloured_by == gain_colouring;
    ImGui::BeginDisabled(!there && !chosen);
    if (ImGui::Selectable(with_unit("Gain of a refresh before", unit_of(gain)).c_str(), chosen))
        ctx.views.text.coloured_by = gain_colouring;
    ImGui::EndDisabled();
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
        ImGui::SetTooltip("%s", there ? "What a refresh before this token would have saved over the next 32 "
                                        "steps, as the landscape "
                                        "of this text says"
                                      : "The panel Landscape computes it");
}

/// How much the shown step read each token.
void TextPanel::draw_attention_choices(UiContext& ctx) {
    const auto choice = [&](const std::string& label, std::string_view colouring, const char* meaning) {
        if (ImGui::Selectable(label.c_str(), ctx.views.text.coloured_by == colouring))
            ctx.views.text.coloured_by = colouring;
        ImGui::SetItemTooltip("%s", meaning);
    };
    choice("Read by the shown step, all heads", mean_colouring,
           "How much the token that the shown step read attended to each earlier one, the prompt's among "
           "them: the mean "
           "of all heads that were recorded");
    choice(fmt::format("Read by the shown step, layer {} head {}", ctx.selection.layer, ctx.selection.head),
           head_colouring, "The same of the head that is chosen in Attention");
}

/// Why nothing is coloured.
void TextPanel::draw_attention_note(const UiContext& ctx) const {
    if (m_coloured.known() || ctx.steps == 0) return;
    ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
    ImGui::TextWrapped("%s",
                       fmt::format("The attention of step {} was not recorded; Attention can ask for it",
                                   format_thousands(ctx.shown_step()))
                           .c_str());
    ImGui::PopStyleColor();
}

void TextPanel::draw_signal_list(UiContext& ctx) {
    using By = ColouredText::By;
    const Signal* signal = m_coloured.signal();
    std::string current = m_coloured.by() == By::attention ? "Read by the shown step"
                          : m_coloured.by() == By::gain    ? "Gain of a refresh before"
                          : signal                         ? with_unit(signal->label, signal->unit)
                                                           : ctx.views.text.coloured_by;
    // In a narrow panel without its unit: that stands at the end of the bar as well.
    if (signal && ImGui::CalcTextSize(current.c_str()).x + ImGui::GetFrameHeight() + ImGui::GetFontSize() >
                      ImGui::CalcItemWidth())
        current = signal->label;
    if (ImGui::BeginCombo("##signal", current.c_str(), ImGuiComboFlags_HeightLarge)) {
        for (size_t i = 0; i < ctx.signals().size(); ++i) {
            const Signal& s = ctx.signals()[i];
            const bool empty = !ctx.recording || !m_coloured.series().series(i).any_measured();
            std::string label = with_unit(s.label, s.unit);
            if (empty) label += ", not measured";
            if (ImGui::Selectable(label.c_str(), signal == &s)) ctx.views.text.coloured_by = s.name;
            ImGui::SetItemTooltip("%s\nCost: %s", std::string(s.description).c_str(),
                                  std::string(s.cost_hint).c_str());
        }
        draw_gain_choice(ctx);
        draw_attention_choices(ctx);
        ImGui::Separator();
        ImGui::Checkbox("Underline by cache origin", &ctx.views.text.origins);
        ImGui::SetItemTooltip(
            "Who wrote the cache entry of each token: the student, or the teacher at a refresh");
        ImGui::Checkbox("Rejected drafts, struck out", &ctx.views.text.rejected);
        ImGui::SetItemTooltip("What the student had drafted where verification wrote something else");
        ImGui::EndCombo();
    }
}

/// Words and counts of a yes or no, or the bar of the colours.
void TextPanel::draw_scale(UiContext& ctx, float bar, const std::string& counted) {
    if (const Verdicts* verdicts = m_coloured.verdicts()) {
        ImGui::AlignTextToFramePadding();
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
        ImGui::TextUnformatted(counted.c_str());
        ImGui::PopStyleColor();
        if (ImGui::IsItemHovered())
            ImGui::SetTooltip("Tokens of the run so far: %s, %s", std::string(verdicts->yes).c_str(),
                              std::string(verdicts->no).c_str());
        return;
    }
    m_range_bar.draw(ctx, ctx.views.text.ranges, shown_range(), bar);
}

ShownRange TextPanel::shown_range() const {
    const ValueRange range = m_coloured.range();
    ShownRange shown{.name = "text", .of = m_coloured.range_of(), .scale = {}};
    shown.scale.min = range.min;
    shown.scale.max = range.max;
    shown.below = m_coloured.below();
    shown.above = m_coloured.above();
    shown.words = m_coloured.own_range() ? "A range of your own"
                  : m_coloured.by() == ColouredText::By::attention
                      ? "Up to the largest weight of one position, position 0 left out"
                      : "Range of the run so far; it widens by itself";
    shown.unit = m_coloured.unit();
    shown.all = m_coloured.all_values();
    shown.tokens = &m_paint.colours();
    return shown;
}

} // namespace refreshlab::ui
