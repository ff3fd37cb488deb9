// The draft that goes on, behind the tokens of the run: what the student has drawn and the teacher has not judged.
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/screen_canvas.h"
#include "ui/panels/text/text_panel.h"
#include "ui/scene/text/text_layout.h"
#include "ui/scene/text/token_label.h"

#include <fmt/format.h>
#include <imgui.h>

#include <cmath>

namespace refreshlab::ui {

/// At most some hundred tokens: they are laid out anew in every frame in which there are any.
void TextPanel::lay_out_draft(UiContext& ctx) {
    m_draft_tokens.clear();
    const OpenDraft* draft = ctx.status->draft.get();
    // The newest step may have come after the status, or before it.
    if (!draft || draft->run_id != ctx.recording->info().id || draft->first_token != ctx.steps + 2 ||
        ctx.playback.playing())
        return;
    m_draft_tokens = draft->tokens;
    m_draft.reset(m_text.style(), screen_text_width, m_text.pen());
    const TokenTable& tokens = ctx.recording->tokens();
    for (const OpenDraft::Token& token : m_draft_tokens)
        m_draft.append(tokens.token_bytes(token.id), tokens.is_special(token.id));
}

void TextPanel::draw_draft(UiContext& ctx, const Metrics& m, ImVec2 origin, bool hovered) {
    ctx.landmarks.set_text([&] { return fmt::format("{}", m_draft_tokens.size()); }, "text/drafted");
    if (m_draft_tokens.empty() || m_text.num_lines() == 0) return;
    const float top = origin.y + static_cast<float>(m_text.num_lines() - 1) * m.pitch;
    paint_draft(ScreenPen(ctx, ImGui::GetWindowDrawList()), m.text, m_draft,
                {static_cast<double>(origin.x), static_cast<double>(top)});
    const ImVec2 mouse = ImGui::GetMousePos();
    if (!hovered || mouse.y < top) return;
    const int32_t index =
        m_draft.token_at(static_cast<size_t>((mouse.y - top) / m.pitch), mouse.x - origin.x);
    if (index < 0 || !ImGui::BeginTooltip()) return;
    const OpenDraft::Token& token = m_draft_tokens[static_cast<size_t>(index)];
    ImGui::PushFont(ctx.fonts.medium, 0);
    ImGui::TextUnformatted(token_label(ctx.recording->tokens(), token.id).c_str());
    ImGui::PopFont();
    ImGui::TextDisabled("drafted, not yet settled: the teacher has not judged it");
    ImGui::TextUnformatted(fmt::format("probability {}, entropy {} bits under the student",
                                       format_number(std::exp(token.logprob)),
                                       format_number(token.entropy_bits))
                               .c_str());
    ImGui::EndTooltip();
}

} // namespace refreshlab::ui
