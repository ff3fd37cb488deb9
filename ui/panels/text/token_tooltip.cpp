// What is known of the token under the mouse.
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/tooltips.h"
#include "ui/panels/text/text_panel.h"
#include "ui/scene/text/text_layout.h"
#include "ui/scene/text/token_label.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <string>

namespace refreshlab::ui {

void TextPanel::draw_candidates(UiContext& ctx, int64_t step, int32_t chosen) {
    const StepRecord& record = ctx.recording->step(step);
    if (record.top_k == 0) return;
    ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
    ImGui::TextUnformatted("Candidates, before temperature and filters");
    ImGui::PopStyleColor();
    const float font = ImGui::GetFontSize(), bar = font * 7, line = ImGui::GetTextLineHeight();
    float names = font * 4;
    const size_t count = std::min<size_t>(record.top_k, max_top_k);
    for (size_t k = 0; k < count; ++k)
        names = std::max(
            names,
            ImGui::CalcTextSize(token_label(ctx.recording->tokens(), record.top_ids[k], 18).c_str()).x);
    ImDrawList* list = ImGui::GetWindowDrawList();
    bool listed = false;
    for (size_t k = 0; k < count; ++k) {
        const bool is_chosen = record.top_ids[k] == chosen;
        listed |= is_chosen;
        const ImVec2 at = ImGui::GetCursorScreenPos();
        const float p = std::clamp(record.top_probs[k], 0.0F, 1.0F);
        list->AddText(at, is_chosen ? ctx.theme.accent_ink : ctx.theme.text,
                      token_label(ctx.recording->tokens(), record.top_ids[k], 18).c_str());
        const float x = at.x + names + font * 0.6F;
        list->AddRectFilled({x, at.y + line * 0.22F}, {x + bar, at.y + line * 0.78F}, ctx.theme.grid, 2);
        list->AddRectFilled({x, at.y + line * 0.22F}, {x + std::max(1.0F, bar * p), at.y + line * 0.78F},
                            is_chosen ? ctx.theme.accent : ctx.theme.signal("entropy_bits"), 2);
        list->AddText({x + bar + font * 0.5F, at.y}, ctx.theme.text,
                      format_signal(record.top_probs[k]).c_str());
        ImGui::Dummy({names + bar + font * 4.5F, line});
    }
    if (!listed && chosen >= 0) ImGui::TextDisabled("chosen from below the likeliest %zu", count);
}

void TextPanel::token_tooltip(UiContext& ctx, int64_t token) {
    if (token < 1 || token > static_cast<int64_t>(m_text.num_tokens()) || !ImGui::BeginTooltip()) return;
    const Recording& recording = *ctx.recording;
    const int64_t step = token - 1;
    const int32_t id = token_chosen(recording, ctx.steps, step);
    ImGui::PushFont(ctx.fonts.medium, 0);
    ImGui::TextUnformatted(token_label(recording.tokens(), id).c_str());
    ImGui::PopFont();
    const char* who = producer_of(ctx, token) == Producer::teacher ? "the teacher" : "the student";
    const std::string when =
        step == 0 ? std::string("prefill") : fmt::format("step {}", format_thousands(step));
    std::string line = fmt::format("chosen at {} by {}, position {}, id {}", when, who,
                                   format_thousands(recording.prompt_length() + token - 1), id);
    if (is_pending(ctx, token)) line += ", not yet fed";
    ImGui::TextDisabled("%s", line.c_str());
    if (step >= 1) {
        ImGui::Spacing();
        draw_candidates(ctx, step, id);
        ImGui::Spacing();
        signal_rows(ctx, step, token);
        if (const RefreshEvent* event = recording.refresh_at(step)) {
            ImGui::Separator();
            describe_refresh(ctx, *event);
        }
    } else {
        ImGui::TextDisabled("ln p %s", format_number(recording.info().first_logprob).c_str());
    }
    ImGui::EndTooltip();
}

} // namespace refreshlab::ui
