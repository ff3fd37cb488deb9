#include "ui/draw/offer_run.h"

#include "ui/base/short_name.h"

#include <filesystem>
#include <system_error>

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

void offer_recent(UiContext& ctx) {
    if (ctx.recording || !ctx.open_file || ctx.recent_files.empty()) return;
    ImGui::Dummy(ImVec2(0, ImGui::GetFontSize() * 0.3F));
    ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
    ImGui::TextUnformatted("Opened last:");
    ImGui::PopStyleColor();
    const auto files = ctx.recent_files; // opening one changes the list
    for (const std::filesystem::path& file : files) {
        std::error_code error;
        if (!std::filesystem::exists(file, error)) continue;
        if (ImGui::TextLink((short_name(file, files) + "##" + file.string()).c_str())) ctx.open_file(file);
        ImGui::SetItemTooltip("%s", file.c_str());
    }
}

} // namespace refreshlab::ui
