#include "ui/dialogs/dialogs.h"
#include "ui/draw/widgets.h"
#include "ui/state/dialog.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>

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
            {"Drag a threshold",
             "its line or its tag, in Signals or Distribution; Esc gives the old value back"},
            {"Drag a plot, wheel", "pans and zooms all time plots; double click fits"},
            {"Right drag in a plot", "zooms to those steps; Esc cancels"},
            {"Drag a colour bar", "of Landscape: moves its end; double click gives the automatic range back"},
            {"Click a token or plot", "selects its step in every panel"},
            {"Hover", "shows values, candidates, refreshes"},
            {"Double click a tab", "enlarges its panel; Esc goes back"},
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

/// What the words and letters of the window mean.
class LegendDialog final : public Dialog {
public:
    const char* title() const override { return "Terms and letters"; }
    float width() const override { return 760; }
    bool draw(ShellState& state) override {
        const float em = ImGui::GetFontSize();
        heading(state.ctx, "Terms");
        constexpr std::pair<const char*, const char*> terms[] = {
            {"Teacher", "the large model. It reads the prompt, and reads again at every refresh"},
            {"Student", "the small model. It writes the tokens, on the teacher's cache entries"},
            {"OverFill", "this way of sharing the work: the teacher fills the cache, the student decodes"},
            {"Entry", "key and value of one token in every layer of a model's cache"},
            {"Drift", "how far an entry that the student wrote is from the teacher's of the same token"},
            {"Refresh",
             "the teacher reads the recent tokens and rewrites their entries in the student's cache"},
            {"Splice", "the writing itself: the teacher's entries take the place of the student's"},
            {"Delta", "the student's entries since the last splice: those that a refresh can rewrite"},
            {"Boundary", "between two steps; only there a refresh happens"},
            {"Trigger", "a signal and its threshold; a refresh happens when it holds"},
            {"Cool-down", "tokens after a refresh during which a trigger rests"},
            {"Lag", "tokens between the decision and the splice, while the teacher reads beside the student"},
            {"KL probe",
             "a teacher pass that only measures how far the student's prediction is from the teacher's"},
            {"Shadow", "the teacher reads every token beside the student: a complete KL curve, at its cost"},
            {"Rebuild mode",
             "the two caches differ in shape: nothing can be copied, a refresh changes nothing"},
        };
        for (const auto& [word, meaning] : terms)
            line(state.ctx, word, meaning, em * 7);
        heading(state.ctx, "Letters on refreshes");
        for (const auto& [letter, meaning] : letters(state.ctx))
            line(state.ctx, std::string(1, letter), meaning, em * 7);
        return true;
    }

private:
    /// From the registry, so that a new signal explains itself.
    static std::vector<std::pair<char, std::string>> letters(const UiContext& ctx) {
        std::vector<std::pair<char, std::string>> list;
        for (const Signal& signal : ctx.signals())
            if (signal.letter != 0) list.emplace_back(signal.letter, std::string(signal.label));
        list.emplace_back('H', "by hand");
        return list;
    }
    static void line(const UiContext& ctx, const std::string& word, const std::string& meaning,
                     float column) {
        const float start = ImGui::GetCursorPosX();
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.accent_ink);
        ImGui::TextUnformatted(word.c_str());
        ImGui::PopStyleColor();
        ImGui::SameLine();
        ImGui::SetCursorPosX(start + column);
        ImGui::TextWrapped("%s", meaning.c_str());
    }
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
std::unique_ptr<Dialog> make_legend_dialog() {
    return std::make_unique<LegendDialog>();
}
std::unique_ptr<Dialog> make_about_dialog() {
    return std::make_unique<AboutDialog>();
}

} // namespace refreshlab::ui
