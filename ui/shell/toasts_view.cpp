#include "engine/signals/registry.h"
#include "ui/shell/parts.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace refreshlab::ui {

namespace {

constexpr size_t max_shown = 4;

/// First hint: the threshold line that can be dragged now, and how one comes where there is none.
/// \param over  the run is over, so that the line changes nothing in it
std::pair<std::string, std::string> line_hint(const UiContext& ctx, bool over) {
    for (const Trigger& trigger : ctx.drafts.policy().triggers) {
        const auto id = signal_id(trigger.signal);
        if (!id || !ctx.views.signals.of(trigger.signal).shown) continue;
        return {"Drag", fmt::format("the threshold line of {}: {}", signals()[*id].label,
                                    over ? "it tells what it would have done" : "refreshes follow it")};
    }
    return {"Policy", "decides when to refresh: choose a preset, drag its values"};
}

double life_s(Toasts::Level level) {
    return level == Toasts::Level::info ? 4 : level == Toasts::Level::warning ? 8 : 15;
}

} // namespace

void draw_toasts(ShellState& state) {
    UiContext& ctx = state.ctx;
    const double now = ImGui::GetTime();
    const ImGuiViewport& view = *ImGui::GetMainViewport();
    const float em = ImGui::GetFontSize(), margin = em * 0.9F, width = em * 27;
    float bottom = view.WorkPos.y + view.WorkSize.y - margin;
    const auto& lines = ctx.toasts.lines();
    size_t shown = 0;
    bool dismiss = false;
    for (size_t i = lines.size(); i-- > 0 && shown < max_shown;) {
        const Toasts::Line& line = lines[i];
        const double age = now - line.time_s;
        if (!line.shown_as_toast || line.time_s <= ctx.toasts.dismissed_before()) continue;
        if (age > life_s(line.level)) continue;
        const ImU32 colour = line.level == Toasts::Level::error     ? ctx.theme.text_error
                             : line.level == Toasts::Level::warning ? ctx.theme.accent
                                                                    : ctx.theme.text_ok;
        const std::string text =
            line.repeats > 1 ? fmt::format("{} ({} times)", line.text, line.repeats) : line.text;
        ImGui::SetNextWindowPos(ImVec2(view.WorkPos.x + view.WorkSize.x - margin, bottom), ImGuiCond_Always,
                                ImVec2(1, 1));
        ImGui::SetNextWindowSize(ImVec2(width, 0));
        ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1.0F);
        ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, em * 0.3F);
        ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(em, em * 0.7F));
        ImGui::PushStyleColor(ImGuiCol_WindowBg, ImGui::GetStyleColorVec4(ImGuiCol_PopupBg));
        ImGui::Begin(fmt::format("##toast {}", shown).c_str(), nullptr,
                     ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
                         ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoFocusOnAppearing |
                         ImGuiWindowFlags_NoNav | ImGuiWindowFlags_NoMove);
        const ImVec2 at = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
        ImGui::GetWindowDrawList()->AddRectFilled(at, ImVec2(at.x + em * 0.25F, at.y + size.y), colour,
                                                  em * 0.3F,
                                                  ImDrawFlags_RoundTopLeft | ImDrawFlags_RoundBottomLeft);
        ImGui::PushTextWrapPos(0);
        ImGui::TextUnformatted(text.c_str());
        ImGui::PopTextWrapPos();
        if (ImGui::IsWindowHovered() && ImGui::IsMouseClicked(ImGuiMouseButton_Left)) dismiss = true;
        bottom = at.y - margin * 0.5F;
        ImGui::End();
        ImGui::PopStyleColor();
        ImGui::PopStyleVar(3);
        ++shown;
    }
    if (dismiss) ctx.toasts.dismiss_all();
}

void draw_hint_card(ShellState& state) {
    UiContext& ctx = state.ctx;
    // What has called them back, a key or a click, does not send them away again.
    constexpr double settle_s = 0.3;
    const bool recalled = state.hints_recalled_s >= 0;
    if (!ctx.first_start_hints && !recalled) return;
    // They are about a run of one's own: over an opened trace they wait until somebody asks for them.
    if (ctx.recording && !ctx.of_engine() && !recalled) return;
    const ImGuiIO& io = ImGui::GetIO();
    bool pressed = io.InputQueueCharacters.Size > 0 || io.MouseWheel != 0;
    for (int button = 0; button < 3; ++button)
        pressed |= ImGui::IsMouseClicked(button);
    for (int k = ImGuiKey_NamedKey_BEGIN; k < ImGuiKey_GamepadStart && !pressed; ++k)
        pressed = ImGui::IsKeyPressed(static_cast<ImGuiKey>(k), false);
    if (recalled && ImGui::GetTime() - state.hints_recalled_s < settle_s) {
        ctx.host.keep_awake(settle_s);
        pressed = false;
    }
    if (pressed) { // gone at the first input, and never again by themselves
        state.hints_recalled_s = -1;
        ctx.first_start_hints = false;
        state.settings.hints_seen = true;
        state.save_all();
        return;
    }
    const float em = ImGui::GetFontSize();
    const ImGuiViewport& view = *ImGui::GetMainViewport();
    // In the corner above the timeline, away from text and plots.
    ImVec2 corner(view.WorkPos.x + view.WorkSize.x - em * 0.7F, view.WorkPos.y + view.WorkSize.y - em * 0.7F);
    if (const auto box = ctx.landmarks.panel("Timeline")) corner.y = box->y - em * 0.7F;
    ImGui::SetNextWindowPos(corner, ImGuiCond_Always, ImVec2(1, 1));
    ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1.0F);
    ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, em * 0.5F);
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(em * 1.4F, em * 1.1F));
    ImGui::PushStyleColor(ImGuiCol_WindowBg, ImGui::GetStyleColorVec4(ImGuiCol_PopupBg));
    ImGui::PushStyleColor(ImGuiCol_Border, ctx.theme.accent);
    ImGui::Begin("##first start", nullptr,
                 ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
                     ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_AlwaysAutoResize |
                     ImGuiWindowFlags_NoFocusOnAppearing | ImGuiWindowFlags_NoNav |
                     ImGuiWindowFlags_NoInputs);
    ImGui::PushFont(ctx.fonts.medium, 0);
    ImGui::TextUnformatted("A teacher and a student write together");
    ImGui::PopFont();
    ImGui::Dummy(ImVec2(0, em * 0.15F));
    // The first run may be over before anybody has read this: then there is nothing left to refresh.
    const bool over = ctx.status->state == EngineState::finished;
    const auto way = [&](const char* id) { return way_to(*state.find_action(id)); };
    const std::string refresh = way("run.refresh_now");
    const std::pair<std::string, std::string> hints[] = {
        line_hint(ctx, over),
        {over ? way("run.restart") : "Press " + refresh,
         over ? fmt::format("to start again; {} then refreshes the student's cache", refresh)
              : "to refresh the student's cache now"},
        {"Click", "a token: every panel shows its step"},
        {"Press " + way("help.tour"), "for a tour: learn the window while you use it"},
    };
    for (const auto& [what, then] : hints) {
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.accent_ink);
        ImGui::PushFont(ctx.fonts.medium, 0);
        ImGui::TextUnformatted(what.c_str());
        ImGui::PopFont();
        ImGui::PopStyleColor();
        ImGui::SameLine(em * 6.2F);
        ImGui::TextUnformatted(then.c_str());
    }
    ImGui::End();
    ImGui::PopStyleColor(2);
    ImGui::PopStyleVar(3);
}

} // namespace refreshlab::ui
