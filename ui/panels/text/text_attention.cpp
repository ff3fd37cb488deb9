// Tokens coloured by how much the shown step read them.
#include "ui/base/value_format.h"
#include "ui/panels/text/text_panel.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace refreshlab::ui {

void TextPanel::draw_attention_choices(UiContext& ctx) {
    const auto choice = [&](const std::string& label, std::string_view colouring, const char* meaning) {
        if (ImGui::Selectable(label.c_str(), ctx.coloured_signal == colouring))
            ctx.coloured_signal = colouring;
        ImGui::SetItemTooltip("%s", meaning);
    };
    choice("Read by the shown step, all heads", mean_colouring,
           "How much the token that the shown step read attended to each earlier one, the prompt's among "
           "them: the mean "
           "of all heads that were recorded");
    choice(fmt::format("Read by the shown step, layer {} head {}", ctx.selection.layer, ctx.selection.head),
           head_colouring, "The same of the head that is chosen in Attention");
}

/// From 0 to the most that one position was given; the first position, which many heads rest on, is left out.
void TextPanel::update_attention(const UiContext& ctx) {
    m_scale.min = 0;
    m_scale.max = 1e-6;
    if (!ctx.recording || ctx.steps == 0) return;
    const int64_t query = ctx.recording->prompt_length() + ctx.shown_step() - 1;
    const auto head = ctx.coloured_signal == head_colouring
                          ? std::optional(std::pair(ctx.selection.layer, ctx.selection.head))
                          : std::nullopt;
    if (m_read.update(*ctx.recording, query, head))
        m_scale.max = std::max(m_scale.max, static_cast<double>(m_read.largest()));
}

/// Why nothing is coloured.
void TextPanel::draw_attention_note(const UiContext& ctx) const {
    if (!by_attention(ctx) || !m_read.weights().empty() || ctx.steps == 0) return;
    ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
    ImGui::TextWrapped("%s",
                       fmt::format("The attention of step {} was not recorded; Attention can ask for it",
                                   format_thousands(ctx.shown_step()))
                           .c_str());
    ImGui::PopStyleColor();
}

} // namespace refreshlab::ui
