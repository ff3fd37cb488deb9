#include "ui/base/fuzzy.h"
#include "ui/dialogs/dialogs.h"
#include "ui/state/dialog.h"
#include "ui/state/shell_state.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>

namespace refreshlab::ui {

namespace {

class ShortcutsDialog final : public Dialog {
public:
    const char* title() const override { return "Shortcuts and gestures"; }
    float width() const override { return 760; }
    bool draw(ShellState& state) override {
        const float em = ImGui::GetFontSize();
        if (ImGui::BeginTable("keys", 2, ImGuiTableFlags_SizingStretchSame)) {
            std::vector<const Action*> keyed;
            for (const Action& action : state.actions)
                if (action.shortcut) keyed.push_back(&action);
            const size_t half = (keyed.size() + 1) / 2;
            for (size_t row = 0; row < half; ++row) {
                ImGui::TableNextRow();
                for (const size_t i : {row, row + half}) {
                    ImGui::TableNextColumn();
                    if (i >= keyed.size()) continue;
                    line(state.ctx, shortcut_text(keyed[i]->shortcut), keyed[i]->label, keyed[i]->help,
                         em * 8);
                }
            }
            ImGui::EndTable();
        }
        heading(state.ctx, "Mouse");
        constexpr std::pair<const char*, const char*> gestures[] = {
            {"Drag a threshold line",
             "in Signals or Distribution, changes the threshold; Esc gives the old one back"},
            {"Drag a plot, wheel", "pans and zooms all time plots; double click fits"},
            {"Right drag in a plot", "zooms to those steps; Esc gives it up"},
            {"Click a token or plot", "selects its step in every panel"},
            {"Hover", "shows values, candidates, refreshes"},
            {"Double click a number", "types it; dragging sideways changes it"},
            {"Right click", "offers default and copy"},
            {"Drag a tab", "moves a panel; \"Reset layout\" puts it back"},
            {"Drop a trace file", "opens it"},
        };
        for (const auto& [what, does] : gestures)
            line(state.ctx, what, does, "", em * 11);
        return true;
    }

private:
    static void line(const UiContext& ctx, const std::string& key, const std::string& text,
                     const std::string& help, float column) {
        const float start = ImGui::GetCursorPosX();
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.accent_ink);
        ImGui::TextUnformatted(key.c_str());
        ImGui::PopStyleColor();
        ImGui::SameLine();
        ImGui::SetCursorPosX(start + column); // SameLine's own offset counts from the table's column
        ImGui::TextUnformatted(text.c_str());
        if (!help.empty()) ImGui::SetItemTooltip("%s", help.c_str());
    }
};

class PaletteDialog final : public Dialog {
public:
    const char* title() const override { return "Find a command"; }
    float width() const override { return 520; }
    bool draw(ShellState& state) override {
        if (ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
        ImGui::SetNextItemWidth(-1);
        const std::string before = m_query;
        const bool enter = ImGui::InputTextWithHint("##query", "Name of a command", &m_query,
                                                    ImGuiInputTextFlags_EnterReturnsTrue);
        if (before != m_query) m_chosen = 0;
        if (ImGui::IsKeyPressed(ImGuiKey_Escape, false)) return false;

        std::vector<std::pair<int, const Action*>> hits;
        for (const Action& action : state.actions) {
            if (action.id == "help.palette") continue;
            const auto score = fuzzy_score(m_query, name_of(action));
            if (score) hits.emplace_back(*score, &action);
        }
        std::ranges::stable_sort(hits, [](const auto& a, const auto& b) { return a.first > b.first; });
        if (ImGui::IsKeyPressed(ImGuiKey_DownArrow)) ++m_chosen;
        if (ImGui::IsKeyPressed(ImGuiKey_UpArrow)) --m_chosen;
        m_chosen = hits.empty() ? 0 : std::clamp(m_chosen, 0, static_cast<int>(hits.size()) - 1);

        const Action* run = enter && !hits.empty() ? hits[static_cast<size_t>(m_chosen)].second : nullptr;
        const float em = ImGui::GetFontSize();
        if (ImGui::BeginChild("hits", ImVec2(0, em * 20))) {
            ImGui::PushItemFlag(ImGuiItemFlags_NoNav,
                                true); // up and down choose a line and leave the entry focused
            for (size_t i = 0; i < hits.size(); ++i) {
                const Action& action = *hits[i].second;
                const bool enabled = ShellState::enabled(action, state.ctx),
                           chosen = static_cast<int>(i) == m_chosen;
                ImGui::BeginDisabled(!enabled);
                if (ImGui::Selectable((name_of(action) + "###" + action.id).c_str(), chosen)) run = &action;
                ImGui::EndDisabled();
                if (chosen && before != m_query) ImGui::SetScrollHereY();
                const bool reason = !enabled && action.why_disabled;
                if (ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip | ImGuiHoveredFlags_AllowWhenDisabled))
                    ImGui::SetTooltip("%s", (reason ? action.why_disabled(state.ctx) : action.help).c_str());
                const std::string keys = shortcut_text(action.shortcut);
                if (keys.empty()) continue;
                ImGui::SameLine();
                ImGui::PushStyleColor(ImGuiCol_Text, state.ctx.theme.text_muted);
                text_right_aligned(keys, content_right() - em * 0.3F);
                ImGui::PopStyleColor();
            }
            ImGui::PopItemFlag();
            if (hits.empty()) muted_text(state.ctx, "No command matches");
        }
        ImGui::EndChild();
        if (!run || !ShellState::enabled(*run, state.ctx)) return true;
        // The action may open a dialog in this one's place: nothing of *this may be touched after it.
        const Action action = *run;
        state.dialog.release(); // NOLINT: given back to the guard in the next line
        const std::unique_ptr<Dialog> keep_alive(this);
        state.run(action);
        return false;
    }

private:
    static std::string name_of(const Action& action) {
        std::string menu = action.menu;
        std::ranges::replace(menu, '/', ' ');
        return menu.empty() ? action.label : fmt::format("{}: {}", menu, action.label);
    }
    std::string m_query;
    int m_chosen = 0;
};

class AboutDialog final : public Dialog {
public:
    const char* title() const override { return "About RefreshLab"; }
    bool draw(ShellState& state) override {
        muted_text(state.ctx,
                   "An instrument for live teacher/student decoding: the student writes, the teacher's cache "
                   "refreshes the student's when a signal asks for it.");
        heading(state.ctx, "This run");
        if (state.ctx.recording) {
            for (const auto& [name, version] : state.ctx.recording->info().versions) {
                ImGui::TextUnformatted(name.c_str());
                ImGui::SameLine(ImGui::GetFontSize() * 8);
                ImGui::TextDisabled("%s", version.c_str());
            }
        } else {
            muted_text(state.ctx, "Versions are shown once a run has started");
        }
        heading(state.ctx, "Made with");
        muted_text(
            state.ctx,
            fmt::format("Dear ImGui {}, ImPlot, GLFW, libtorch, nlohmann-json, fmt, SQLite. Fonts: Roboto "
                        "(Apache-2.0), DejaVu (Bitstream Vera). Bundled pair: built with Llama.",
                        IMGUI_VERSION));
        return true;
    }
};

} // namespace

std::unique_ptr<Dialog> make_shortcuts_dialog() {
    return std::make_unique<ShortcutsDialog>();
}
std::unique_ptr<Dialog> make_palette_dialog() {
    return std::make_unique<PaletteDialog>();
}
std::unique_ptr<Dialog> make_about_dialog() {
    return std::make_unique<AboutDialog>();
}

} // namespace refreshlab::ui
