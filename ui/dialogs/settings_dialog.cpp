// Where things are kept, how the window looks, and every key.
#include "engine/base/bytes_text.h"
#include "engine/fetch/published_models.h"
#include "ui/base/fuzzy.h"
#include "ui/dialogs/colour_settings.h"
#include "ui/dialogs/dialogs.h"
#include "ui/dialogs/workspace_files.h"
#include "ui/draw/text_entry.h"
#include "ui/draw/widgets.h"
#include "ui/scene/theme/theme.h"
#include "ui/state/dialog.h"
#include "ui/state/keys.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

namespace refreshlab::ui {

namespace {

namespace fs = std::filesystem;

int64_t folder_bytes(const fs::path& folder) {
    int64_t sum = 0;
    std::error_code error;
    for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
        std::error_code ignored;
        if (it->is_regular_file(ignored)) sum += static_cast<int64_t>(it->file_size(ignored));
    }
    return sum;
}

class SettingsDialog final : public Dialog {
public:
    explicit SettingsDialog(const ShellState& state)
        : m_folders{{{"Settings, layouts", state.ctx.host.user_folder(), 0},
                     {"Recent files, sessions", state.ctx.host.state_folder(), 0},
                     {"Fetched models", models_folder(state.ctx.host.assets()), 0}}} {
        for (Kept& kept : m_folders)
            if (!kept.folder.empty()) kept.bytes = folder_bytes(kept.folder);
    }
    const char* title() const override { return "Settings"; }
    float width() const override { return 680; }
    bool draw(ShellState& state) override {
        ImGui::PushStyleColor(ImGuiCol_Tab, ImGui::GetStyleColorVec4(ImGuiCol_PopupBg));
        ImGui::PushStyleColor(ImGuiCol_TabSelected, ImGui::GetStyleColorVec4(ImGuiCol_FrameBg));
        ImGui::PushStyleColor(ImGuiCol_TabSelectedOverline, state.ctx.theme.accent_ink);
        if (ImGui::BeginTabBar("parts", ImGuiTabBarFlags_DrawSelectedOverline)) {
            if (ImGui::BeginTabItem("Look")) {
                draw_look(state);
                ImGui::EndTabItem();
            }
            if (ImGui::BeginTabItem("Colours")) {
                m_colours.draw(state);
                ImGui::EndTabItem();
            }
            if (ImGui::BeginTabItem("Keeping")) {
                draw_keeping(state);
                ImGui::EndTabItem();
            }
            if (ImGui::BeginTabItem("Keys")) {
                draw_keys(state);
                ImGui::EndTabItem();
            }
            ImGui::EndTabBar();
        }
        ImGui::PopStyleColor(3);
        return true;
    }
    bool take_escape() override {
        m_conflict = 0;
        return !std::exchange(m_asked, {}).empty();
    }

private:
    struct Kept {
        const char* what;
        fs::path folder;
        int64_t bytes;
    };

    void draw_look(ShellState& state) {
        const float em = ImGui::GetFontSize(), column = em * 7;
        ImGui::Dummy(ImVec2(0, em * 0.3F));
        label_before("Theme", column);
        for (const std::string& name : theme_names(state.ctx.host.assets())) {
            if (ImGui::RadioButton(name.c_str(), state.ctx.theme.name == name))
                state.run("view.theme." + name);
            ImGui::SameLine();
        }
        ImGui::NewLine();
        label_before("Size", column);
        const auto button = [&](const char* label, const char* id) {
            const Action* action = state.find_action(id);
            ImGui::BeginDisabled(!action->enabled(state.ctx));
            if (ImGui::Button(label, ImVec2(em * 2, 0))) state.run(id);
            ImGui::EndDisabled();
            ImGui::SetItemTooltip("%s  %s", action->label.c_str(), shortcut_text(action->shortcut).c_str());
            ImGui::SameLine();
        };
        button("-", "view.scale_down");
        button("+", "view.scale_up");
        ImGui::AlignTextToFramePadding();
        ImGui::Text("%.0f %%", static_cast<double>(state.settings.user_scale) * 100);
        label_before("Layout", column);
        bool locked = state.settings.layout_locked;
        if (ImGui::Checkbox("locked", &locked)) state.run("view.layout.lock");
        ImGui::SetItemTooltip("Panels cannot be moved or resized by accident");
    }

    void draw_keeping(ShellState& state) {
        const float em = ImGui::GetFontSize(), column = em * 12;
        ImGui::Dummy(ImVec2(0, em * 0.3F));
        for (const Kept& kept : m_folders) {
            ImGui::PushID(kept.what);
            label_before(kept.what, column);
            if (kept.folder.empty()) {
                ImGui::TextDisabled("nothing is kept");
            } else {
                if (ImGui::Button("Open")) show_folder(state, kept.folder);
                ImGui::SetItemTooltip("Opens the folder and copies its path");
                ImGui::SameLine();
                if (ImGui::Button("Copy path")) ImGui::SetClipboardText(kept.folder.c_str());
                ImGui::SameLine();
                ImGui::AlignTextToFramePadding();
                ImGui::TextUnformatted(bytes_text(kept.bytes).c_str());
                ImGui::SetCursorPosX(column);
                ImGui::PushTextWrapPos(0);
                muted_text(state.ctx, kept.folder.string());
                ImGui::PopTextWrapPos();
            }
            ImGui::PopID();
        }
        label_before("Autosave, at most", column);
        ImGui::SetNextItemWidth(em * 8);
        whole_entry("MB##autosave", &state.settings.autosave_megabytes, 0, most_autosave_megabytes, 100,
                    1000);
        ImGui::SetItemTooltip(
            "That the runs of one window that are in no file may take; beyond it the oldest go.\n"
            "0 keeps none: a crash loses them");
        label_before("Recent files", column);
        const auto files = state.ctx.recent_files.size();
        ImGui::BeginDisabled(files == 0);
        if (ImGui::Button("Clear the list")) state.run("file.clear_recent");
        ImGui::EndDisabled();
        ImGui::SameLine();
        ImGui::AlignTextToFramePadding();
        ImGui::TextUnformatted(fmt::format("{} of {}", files, RecentFiles::most).c_str());
    }

    void draw_keys(ShellState& state) {
        const float em = ImGui::GetFontSize();
        ImGui::Dummy(ImVec2(0, em * 0.3F));
        ImGui::SetNextItemWidth(em * 16);
        ImGui::InputTextWithHint("##find", "Name of a command, or a key", &m_find);
        ImGui::SameLine();
        ImGui::BeginDisabled(state.settings.keys.empty());
        if (ImGui::Button("Reset all")) {
            state.settings.keys.clear();
            apply_keys(state.actions, state.settings.keys);
        }
        ImGui::EndDisabled();
        draw_conflict(state);
        m_taken = !m_asked.empty() && m_conflict == 0 && take_key(state);
        // The list scrolls, not the dialog.
        const float room = ImGui::GetMainViewport()->WorkSize.y * most_dialog_height -
                           ImGui::GetCursorPosY() - ImGui::GetStyle().WindowPadding.y - em;
        const bool visible = ImGui::BeginChild("keys", ImVec2(0, std::clamp(room, em * 5, em * 20)));
        if (visible && ImGui::BeginTable("keys", 3, ImGuiTableFlags_RowBg)) {
            ImGui::TableSetupColumn("command", ImGuiTableColumnFlags_WidthStretch);
            ImGui::TableSetupColumn("key", ImGuiTableColumnFlags_WidthFixed, em * 9);
            ImGui::TableSetupColumn("reset", ImGuiTableColumnFlags_WidthFixed, em * 5);
            const Action* reset = nullptr;
            for (const Action& action : state.actions)
                if (draw_row(state, action)) reset = &action;
            if (reset != nullptr) give(state, reset->id, reset->usual_shortcut);
            ImGui::EndTable();
        }
        ImGui::EndChild();
        state.asking_for_key = !m_asked.empty();
    }

    /// \return whether the action is to have the key of the table again
    bool draw_row(ShellState& state, const Action& action) {
        const std::string key = shortcut_text(action.shortcut);
        if (!m_find.empty() && !fuzzy_score(m_find, action.label) && key != m_find) return false;
        ImGui::TableNextRow();
        ImGui::TableNextColumn();
        ImGui::AlignTextToFramePadding();
        ImGui::TextUnformatted(action.label.c_str());
        ImGui::SetItemTooltip("%s", action.help.c_str());
        ImGui::TableNextColumn();
        const bool asked = m_asked == action.id;
        const std::string label = asked ? "press a key..." : key.empty() ? "none" : key;
        if (asked) ImGui::PushStyleColor(ImGuiCol_Text, state.ctx.theme.accent_ink);
        if (ImGui::Button((label + "###key." + action.id).c_str(), ImVec2(-1, 0)) && !m_taken) {
            m_asked = asked ? std::string() : action.id;
            m_conflict = 0;
        }
        if (asked) ImGui::PopStyleColor();
        landmark(state, "settings/key/", action.id);
        ImGui::SetItemTooltip("Press it, then the new key; Esc leaves the present one, Delete takes it away");
        ImGui::TableNextColumn();
        if (action.shortcut == action.usual_shortcut) return false;
        const std::string usual = shortcut_text(action.usual_shortcut);
        const bool reset = ImGui::Button(("Reset###reset." + action.id).c_str());
        landmark(state, "settings/reset/", action.id);
        ImGui::SetItemTooltip("%s", usual.empty() ? "No key, as at first" : ("To " + usual).c_str());
        return reset;
    }

    static void landmark(ShellState& state, const char* what, const std::string& id) {
        const ImVec2 low = ImGui::GetItemRectMin(), size = ImGui::GetItemRectSize();
        state.ctx.landmarks.set({low.x, low.y, size.x, size.y}, "{}{}", what, id);
    }

    /// A key that is another action's is asked about first.
    void give(ShellState& state, const std::string& id, ImGuiKeyChord chord) {
        const Action* const other = action_of_key(state.actions, chord);
        const bool asks = other != nullptr && other->id != id;
        m_asked = asks ? id : std::string();
        m_conflict = asks ? chord : 0;
        if (!asks) choose_key(state.actions, state.settings.keys, id, chord);
    }

    /// The key that was pressed in this frame, with what is held beside it. \return whether one was
    bool take_key(ShellState& state) {
        for (int k = ImGuiKey_NamedKey_BEGIN; k < ImGuiKey_GamepadStart; ++k) {
            const auto key = static_cast<ImGuiKey>(k);
            const bool modifier = key >= ImGuiKey_LeftCtrl && key <= ImGuiKey_RightSuper;
            if (modifier || key == ImGuiKey_Escape || !ImGui::IsKeyPressed(key, false)) continue;
            const ImGuiKeyChord held =
                ImGui::GetIO().KeyMods & (ImGuiMod_Ctrl | ImGuiMod_Alt | ImGuiMod_Shift);
            const ImGuiKeyChord chord = held == 0 && key == ImGuiKey_Delete ? 0 : held | key;
            give(state, std::string(m_asked), chord);
            return true;
        }
        return false;
    }

    void draw_conflict(ShellState& state) {
        const Action* const other = action_of_key(state.actions, m_conflict);
        if (m_conflict == 0 || other == nullptr) return;
        ImGui::AlignTextToFramePadding();
        ImGui::PushStyleColor(ImGuiCol_Text, state.ctx.theme.text_error);
        ImGui::TextUnformatted(
            fmt::format("{} is the key of \"{}\"", shortcut_text(m_conflict), other->label).c_str());
        ImGui::PopStyleColor();
        ImGui::SameLine();
        if (ImGui::Button("Take it"))
            choose_key(state.actions, state.settings.keys, std::exchange(m_asked, {}),
                       std::exchange(m_conflict, 0));
        ImGui::SetItemTooltip("The other command has no key then");
        ImGui::SameLine();
        if (ImGui::Button("Another key")) m_conflict = 0;
    }

    ColourSettings m_colours;
    std::array<Kept, 3> m_folders;
    std::string m_find, m_asked;  ///< id of the action whose new key is waited for
    ImGuiKeyChord m_conflict = 0; ///< that was pressed and is somebody's; 0 = none
    bool m_taken = false;         ///< a key in this frame: it presses no button besides
};

} // namespace

std::unique_ptr<Dialog> make_settings_dialog(ShellState& state) {
    return std::make_unique<SettingsDialog>(state);
}

} // namespace refreshlab::ui
