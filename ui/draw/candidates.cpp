#include "ui/draw/candidates.h"

#include "ui/base/value_format.h"
#include "ui/draw/widgets.h"
#include "ui/scene/text/token_label.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>

namespace refreshlab::ui {

std::optional<int32_t> draw_candidates(UiContext& ctx, int64_t step, int32_t chosen, bool to_pick) {
    const StepRecord& record = ctx.recording->step(step);
    if (record.top_k == 0) return std::nullopt;
    std::optional<int32_t> picked;
    if (to_pick)
        muted_text(ctx, "Candidates before temperature; a click branches");
    else // in a tooltip, which is as wide as its lines
        ImGui::TextDisabled("Candidates, before temperature and filters");
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
        const ImVec2 at = ImGui::GetCursorScreenPos(), row(names + bar + font * 4.5F, line);
        if (to_pick && !is_chosen) {
            ImGui::PushID(static_cast<int>(k));
            if (ImGui::InvisibleButton("##candidate", row)) picked = record.top_ids[k];
            ImGui::PopID();
            ctx.landmarks.set({at.x, at.y, row.x, row.y}, "candidates/{}", k);
            if (ImGui::IsItemHovered()) {
                list->AddRectFilled(at, {at.x + row.x, at.y + row.y}, with_alpha(ctx.theme.accent, 0.2F), 2);
                ImGui::SetMouseCursor(ImGuiMouseCursor_Hand);
                ImGui::SetTooltip(
                    "Continue from here with this token, as a branch; B shows the previous run");
            }
            ImGui::SetCursorScreenPos(at);
        }
        const float p = std::clamp(record.top_probs[k], 0.0F, 1.0F);
        list->AddText(at, is_chosen ? ctx.theme.accent_ink : ctx.theme.text,
                      token_label(ctx.recording->tokens(), record.top_ids[k], 18).c_str());
        const float x = at.x + names + font * 0.6F;
        list->AddRectFilled({x, at.y + line * 0.22F}, {x + bar, at.y + line * 0.78F}, ctx.theme.grid, 2);
        list->AddRectFilled({x, at.y + line * 0.22F}, {x + std::max(1.0F, bar * p), at.y + line * 0.78F},
                            is_chosen ? ctx.theme.accent : ctx.theme.signal("entropy_bits"), 2);
        list->AddText({x + bar + font * 0.5F, at.y}, ctx.theme.text,
                      format_signal(record.top_probs[k]).c_str());
        ImGui::Dummy(row);
    }
    if (!listed && chosen >= 0) ImGui::TextDisabled("chosen from below the %zu most likely", count);
    return picked;
}

} // namespace refreshlab::ui
