#include "ui/shell/run_bar/action_button.h"

#include "ui/base/colour.h"
#include "ui/draw/widgets.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {
namespace {

void draw_icon(Icon icon, ImVec2 centre, float size, ImU32 colour) {
    ImDrawList& draw = *ImGui::GetWindowDrawList();
    const float h = size * 0.5F;
    switch (icon) {
    case Icon::none:
        break;
    case Icon::play:
        draw.AddTriangleFilled(ImVec2(centre.x - h * 0.75F, centre.y - h),
                               ImVec2(centre.x - h * 0.75F, centre.y + h), ImVec2(centre.x + h, centre.y),
                               colour);
        break;
    case Icon::pause:
        draw.AddRectFilled(ImVec2(centre.x - h * 0.8F, centre.y - h),
                           ImVec2(centre.x - h * 0.2F, centre.y + h), colour, 1);
        draw.AddRectFilled(ImVec2(centre.x + h * 0.2F, centre.y - h),
                           ImVec2(centre.x + h * 0.8F, centre.y + h), colour, 1);
        break;
    case Icon::step:
        draw.AddTriangleFilled(ImVec2(centre.x - h * 0.8F, centre.y - h),
                               ImVec2(centre.x - h * 0.8F, centre.y + h),
                               ImVec2(centre.x + h * 0.4F, centre.y), colour);
        draw.AddRectFilled(ImVec2(centre.x + h * 0.5F, centre.y - h),
                           ImVec2(centre.x + h * 0.9F, centre.y + h), colour, 1);
        break;
    case Icon::refresh: {
        constexpr float pi = 3.14159265F;
        draw.PathArcTo(centre, h * 0.85F, -pi * 0.35F, pi * 1.35F, 20);
        draw.PathStroke(colour, std::max(1.2F, size * 0.15F));
        const ImVec2 tip(centre.x + h * 0.85F * std::cos(-pi * 0.35F),
                         centre.y + h * 0.85F * std::sin(-pi * 0.35F));
        draw.AddTriangleFilled(ImVec2(tip.x - h * 0.75F, tip.y - h * 0.15F),
                               ImVec2(tip.x + h * 0.35F, tip.y - h * 0.55F),
                               ImVec2(tip.x + h * 0.2F, tip.y + h * 0.6F), colour);
        break;
    }
    }
}

void draw_tooltip(const Action& action, const UiContext& ctx, bool enabled) {
    if (!ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip | ImGuiHoveredFlags_AllowWhenDisabled)) return;
    const std::string keys = shortcut_text(action.shortcut);
    if (!enabled)
        ImGui::SetTooltip("%s", action.reason(ctx).c_str());
    else if (keys.empty())
        ImGui::SetTooltip("%s", action.help.c_str());
    else
        ImGui::SetTooltip("%s\n%s", action.help.c_str(), keys.c_str());
}

} // namespace

float button_width(const std::string& label, const ButtonLook& look) {
    const float icon = look.icon == Icon::none ? 0 : ImGui::GetFontSize() * 1.25F;
    return std::max(look.min_width,
                    ImGui::CalcTextSize(label.c_str()).x + icon + ImGui::GetStyle().FramePadding.x * 2.4F);
}

void action_button(ShellState& state, const char* id, const std::string& label, const ButtonLook& look) {
    const Action* action = state.find_action(id);
    if (!action) return;
    UiContext& ctx = state.ctx;
    const ImGuiStyle& style = ImGui::GetStyle();
    const float em = ImGui::GetFontSize(), icon_width = look.icon == Icon::none ? 0 : em * 1.25F;
    const bool enabled = action->enabled(ctx);
    const float width = button_width(label, look);
    const bool filled = look.accent && !look.pending;
    ImU32 ink = ctx.theme.text;
    int colours = 0;
    if (look.accent) {
        const ImU32 base = filled ? ctx.theme.accent : with_alpha(ctx.theme.accent, 0.12F);
        ImGui::PushStyleColor(ImGuiCol_Button, base);
        ImGui::PushStyleColor(ImGuiCol_ButtonHovered, mix(base, IM_COL32_WHITE, 0.15F));
        ImGui::PushStyleColor(ImGuiCol_ButtonActive, mix(base, IM_COL32_BLACK, 0.12F));
        colours = 3;
        ink = filled ? ctx.theme.accent_text : ctx.theme.accent_ink;
    }
    ImGui::BeginDisabled(!enabled);
    if (ImGui::Button(fmt::format("###{}", id).c_str(), ImVec2(width, 0))) state.run(*action);
    ImGui::PopStyleColor(colours);
    const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
    const float alpha = enabled ? 1.0F : style.DisabledAlpha;
    const ImU32 colour = with_alpha(ink, alpha);
    const float text_width = ImGui::CalcTextSize(label.c_str()).x;
    float x = low.x + (high.x - low.x - text_width - icon_width) * 0.5F;
    if (look.icon != Icon::none)
        draw_icon(look.icon, ImVec2(x + em * 0.4F, (low.y + high.y) * 0.5F), em * 0.72F, colour);
    x += icon_width;
    ImGui::GetWindowDrawList()->AddText(ImVec2(x, low.y + style.FramePadding.y), colour, label.c_str());
    if (look.accent && look.pending)
        ImGui::GetWindowDrawList()->AddRect(low, high, ctx.theme.accent, style.FrameRounding, 1.5F);
    ImGui::EndDisabled();
    draw_tooltip(*action, ctx, enabled);
    const char* name = std::string_view(id).find('.') == std::string_view::npos
                           ? id
                           : id + std::string_view(id).find('.') + 1;
    ctx.landmarks.set({low.x, low.y, high.x - low.x, high.y - low.y}, "runbar/{}", name);
}

} // namespace refreshlab::ui
