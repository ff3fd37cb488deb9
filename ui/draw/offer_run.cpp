#include "ui/draw/offer_run.h"

namespace refreshlab::ui {

void offer_run(UiContext& ctx, const char* what) {
    const EngineState state = ctx.status->state;
    const bool busy = state == EngineState::loading || state == EngineState::prefilling;
    ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
    if (busy) {
        ImGui::TextWrapped("%s",
                           ctx.status->message.empty() ? to_string(state) : ctx.status->message.c_str());
    } else {
        ImGui::TextWrapped("%s", what);
    }
    ImGui::PopStyleColor();
    if (busy || !ctx.run_action) return; // the bar stands in the run bar, once
    if (state == EngineState::paused && ctx.recording) {
        if (ImGui::Button("Play")) ctx.run_action("run.play_pause");
    } else if (!ctx.recording || state == EngineState::failed) {
        if (ImGui::Button("New run...")) ctx.run_action("run.new");
    }
}

} // namespace refreshlab::ui
