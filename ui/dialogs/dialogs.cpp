#include "ui/dialogs/dialogs.h"

#include "ui/state/shell_state.h"

#include <algorithm>

namespace refreshlab::ui {

void draw_dialog(ShellState& state) {
    if (!state.dialog) return;
    Dialog* shown = state.dialog.get();
    const ImGuiViewport& view = *ImGui::GetMainViewport();
    const float em = ImGui::GetFontSize();
    const float width = std::min(shown->width() / 15.0F * em, view.WorkSize.x - em * 2);
    const ImVec2 centre(view.WorkPos.x + view.WorkSize.x * 0.5F, view.WorkPos.y + view.WorkSize.y * 0.14F);
    ImGui::SetNextWindowPos(centre, ImGuiCond_Appearing, ImVec2(0.5F, 0));
    ImGui::SetNextWindowSizeConstraints(ImVec2(width, 0), ImVec2(width, view.WorkSize.y * 0.82F));
    ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1.0F);
    ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, em * 0.45F);
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(em, em * 0.8F));
    ImGui::PushStyleColor(ImGuiCol_WindowBg, ImGui::GetStyleColorVec4(ImGuiCol_PopupBg));
    ImGui::PushStyleColor(ImGuiCol_TitleBg, ImGui::GetStyleColorVec4(ImGuiCol_PopupBg));
    ImGui::PushStyleColor(ImGuiCol_TitleBgActive, ImGui::GetStyleColorVec4(ImGuiCol_PopupBg));
    bool open = true;
    // Each dialog is a window of its own: a new one appears focused and in the middle.
    if (ImGui::Begin(shown->title(), &open,
                     ImGuiWindowFlags_NoDocking | ImGuiWindowFlags_NoSavedSettings |
                         ImGuiWindowFlags_NoCollapse | ImGuiWindowFlags_AlwaysAutoResize)) {
        try {
            open = shown->draw(state) && open;
        } catch (const std::exception& e) {
            open = false;
            state.say(Toasts::Level::error, e.what());
        }
        const bool focused = ImGui::IsWindowFocused(ImGuiFocusedFlags_RootAndChildWindows);
        // In a text entry the first Esc belongs to the entry: nobody wants to lose a prompt by it.
        const bool escape = ImGui::IsKeyPressed(ImGuiKey_Escape, false) && !ImGui::GetIO().WantTextInput;
        if (focused && escape) open = false;
    }
    ImGui::End();
    ImGui::PopStyleColor(3);
    ImGui::PopStyleVar(3);
    // The dialog may have opened another one (the palette does): then that one stays.
    if (!open && state.dialog.get() == shown) state.dialog.reset();
}

void quit(ShellState& state) {
    if (state.options.ask_before_closing && state.unsaved()) {
        state.dialog = make_unsaved_dialog();
        return;
    }
    state.save_all();
    state.ctx.host.quit();
}

} // namespace refreshlab::ui
