#include "ui/dialogs/dialogs.h"

#include "ui/state/shell_state.h"

#include <algorithm>

namespace refreshlab::ui {

namespace {

struct Answer {
    bool done = false;   ///< the dialog has ended itself
    bool closed = false; ///< somebody has left it
};

/// The window of a dialog, in the middle of the upper half.
Answer draw_window(ShellState& state, Dialog& dialog) {
    const ImGuiViewport& view = *ImGui::GetMainViewport();
    const float em = ImGui::GetFontSize();
    const float width = std::min(dialog.width() / 15.0F * em, view.WorkSize.x - em * 2);
    const ImVec2 centre(view.WorkPos.x + view.WorkSize.x * 0.5F, view.WorkPos.y + view.WorkSize.y * 0.14F);
    ImGui::SetNextWindowPos(centre, ImGuiCond_Appearing, ImVec2(0.5F, 0));
    ImGui::SetNextWindowSizeConstraints(ImVec2(width, 0),
                                        ImVec2(width, view.WorkSize.y * most_dialog_height));
    ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1.0F);
    ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, em * 0.45F);
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(em, em * 0.8F));
    ImGui::PushStyleColor(ImGuiCol_WindowBg, ImGui::GetStyleColorVec4(ImGuiCol_PopupBg));
    ImGui::PushStyleColor(ImGuiCol_TitleBg, ImGui::GetStyleColorVec4(ImGuiCol_PopupBg));
    ImGui::PushStyleColor(ImGuiCol_TitleBgActive, ImGui::GetStyleColorVec4(ImGuiCol_PopupBg));
    Answer answer;
    bool open = true, layer_over_it = false;
    // Each dialog is a window of its own: a new one appears focused and in the middle.
    if (ImGui::Begin(dialog.title(), &open,
                     ImGuiWindowFlags_NoDocking | ImGuiWindowFlags_NoSavedSettings |
                         ImGuiWindowFlags_NoCollapse | ImGuiWindowFlags_AlwaysAutoResize)) {
        try {
            answer.done = !dialog.draw(state);
        } catch (const std::exception& e) {
            answer.done = true;
            state.say(Toasts::Level::error, e.what());
        }
        const bool focused = ImGui::IsWindowFocused(ImGuiFocusedFlags_RootAndChildWindows);
        // Esc closes one layer: an open list or menu first, then it leaves the entry in which somebody types. Dear ImGui has
        // closed a list before anything of the frame is drawn, so the last frame counts.
        if (focused && ImGui::IsKeyPressed(ImGuiKey_Escape, false) && !state.layer_over_dialog)
            answer.closed = !dialog.take_escape();
        layer_over_it = ImGui::GetIO().WantTextInput ||
                        ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopupId | ImGuiPopupFlags_AnyPopupLevel);
    }
    state.layer_over_dialog = layer_over_it;
    answer.closed |= !open;
    ImGui::End();
    ImGui::PopStyleColor(3);
    ImGui::PopStyleVar(3);
    return answer;
}

} // namespace

void draw_dialog(ShellState& state) {
    state.asking_for_key = false; // said anew in every frame
    if (!state.dialog) {
        state.layer_over_dialog = false;
        return;
    }
    Dialog* shown = state.dialog.get();
    switch (shown->stand()) {
    case Dialog::Stand::hidden:
        return;
    case Dialog::Stand::over:
        state.dialog.reset();
        return;
    case Dialog::Stand::open:
        break;
    }
    const Answer answer = draw_window(state, *shown);
    // The dialog may have opened another one (the palette does): then that one stays.
    if (state.dialog.get() != shown) return;
    if (answer.closed && !answer.done) shown->put_aside(state);
    if (answer.closed || answer.done) state.dialog.reset();
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
