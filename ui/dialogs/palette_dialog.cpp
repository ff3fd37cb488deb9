#include "engine/base/error.h"
#include "engine/control/parameters.h"
#include "ui/base/format.h"
#include "ui/base/fuzzy.h"
#include "ui/base/short_name.h"
#include "ui/context/go_to.h"
#include "ui/dialogs/dialogs.h"
#include "ui/dialogs/workspace_files.h"
#include "ui/draw/widgets.h"
#include "ui/panels/panel.h"
#include "ui/state/dialog.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

namespace refreshlab::ui {

namespace {

/// Finds whatever has a name: commands, parameters, signals, panels, notes.
class PaletteDialog final : public Dialog {
public:
    const char* title() const override { return "Find a command"; }
    float width() const override { return 560; }
    bool draw(ShellState& state) override {
        return m_parameter ? draw_value(state, *m_parameter) : draw_list(state);
    }
    bool take_escape() override { return std::exchange(m_parameter, nullptr) != nullptr; }

private:
    /// One line of the list.
    struct Entry {
        std::string name, id, help, keys;
        bool enabled = true;
        std::function<bool(ShellState&)> choose; ///< \return false: the dialog is done
    };
    [[nodiscard]] std::vector<Entry> entries(ShellState& state);
    [[nodiscard]] std::vector<Entry> matching(ShellState& state);
    bool draw_list(ShellState& state);
    bool draw_value(ShellState& state, const Parameter& parameter);
    bool set(ShellState& state, const Parameter& parameter, const std::string& value);
    bool run_action(ShellState& state, const std::string& id);

    std::string m_query;
    int m_chosen = 0;
    const Parameter* m_parameter = nullptr; ///< its value is asked for
    std::string m_value, m_fault;
    bool m_focus = true;
};

std::string name_of(const Action& action) {
    std::string menu = action.menu;
    std::ranges::replace(menu, '/', ' ');
    return menu.empty() ? action.label : fmt::format("{}: {}", menu, action.label);
}

std::vector<PaletteDialog::Entry> PaletteDialog::entries(ShellState& state) {
    std::vector<Entry> list;
    for (const Action& action : state.actions) {
        if (action.id == "help.palette") continue;
        const std::string reason = action.reason(state.ctx);
        list.push_back({name_of(action), action.id, reason.empty() ? action.help : reason,
                        shortcut_text(action.shortcut), reason.empty(),
                        [this, id = action.id](ShellState& s) { return run_action(s, id); }});
    }
    if (const Action* compare = state.find_action("run.compare_cache")) {
        const std::string reason = compare->reason(state.ctx);
        for (const CacheMethod& method : cache_methods())
            list.push_back({fmt::format("Compare with cache policy: {}", method.label),
                            fmt::format("compare.{}", method.name),
                            reason.empty() ? std::string(method.summary) : reason, "", reason.empty(),
                            [name = method.name](ShellState& s) {
                                s.guarded([&] { compare_with_method(s, name); });
                                return false;
                            }});
    }
    for (const std::filesystem::path& file : state.ctx.recent_files) {
        std::error_code error;
        const bool there = std::filesystem::exists(file, error);
        list.push_back({"Open recent: " + short_name(file, state.ctx.recent_files), "recent." + file.string(),
                        file.string() + (there ? "" : " is not there any more"), "", there,
                        [file](ShellState& s) {
                            open_file(s, file);
                            return false;
                        }});
    }
    for (const Parameter& parameter : parameters()) {
        const auto value = state.ctx.drafts.value(parameter.key);
        const bool fixed = !fixed_reason(state.ctx.drafts.config(), parameter.key).empty();
        if (fixed || !value) continue; // the run has no such thing, or needs a new one for it
        const std::string shown = parameter.kind != Parameter::Kind::boolean ? *value
                                  : *value == "true"                         ? "on"
                                                                             : "off";
        list.push_back({fmt::format("Set: {}", parameter.label), std::string(parameter.key),
                        std::string(parameter.help),
                        shown + (parameter.unit.empty() ? "" : " " + shown_unit(parameter.unit)), true,
                        [this, &parameter, now = *value](ShellState&) {
                            m_parameter = &parameter;
                            m_value = now;
                            m_fault.clear();
                            m_focus = true;
                            return true;
                        }});
    }
    for (const Signal& signal : state.ctx.signals()) {
        const std::string name(signal.name);
        const bool shown = state.ctx.views.signals.of(name).shown;
        list.push_back({fmt::format("{}: {}", shown ? "Hide plot" : "Plot", signal.label), "plot." + name,
                        std::string(signal.description), shown ? "plotted" : "", true,
                        [name, shown](ShellState& s) {
                            s.ctx.views.signals.choose(name).shown = !shown;
                            s.open_panel(std::string(s.panel_in_use("Signals")->title()));
                            return false;
                        }});
    }
    for (NoteRow& row : note_rows(state.runs)) {
        const std::string name = fmt::format("Note: {}", note_words(row.note));
        const std::string id = fmt::format("note.{}", list.size());
        const std::string run = state.runs.tree().runs().size() > 1 ? row.run_name + ", " : std::string();
        list.push_back({name, id, row.note.text.empty() ? note_place(row.note) : row.note.text,
                        run + note_place(row.note), true, [row](ShellState& s) {
                            go_to_note(s.ctx, row);
                            return false;
                        }});
    }
    for (const auto& panel : state.panels) {
        const std::string name(panel->title());
        list.push_back({"Panel: " + name, "panel." + name, "Opens the panel, or brings it to the front.", "",
                        true, [name](ShellState& s) {
                            s.open_panel(name);
                            return false;
                        }});
    }
    return list;
}

std::vector<PaletteDialog::Entry> PaletteDialog::matching(ShellState& state) {
    std::vector<std::pair<int, Entry>> hits;
    for (Entry& entry : entries(state))
        if (const auto score = fuzzy_score(m_query, entry.name)) hits.emplace_back(*score, std::move(entry));
    std::ranges::stable_sort(hits, [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<Entry> list;
    for (auto& [score, entry] : hits)
        list.push_back(std::move(entry));
    return list;
}

/// The action may open a dialog in this one's place: nothing of *this may be touched after it.
bool PaletteDialog::run_action(ShellState& state, const std::string& id) {
    const Action action = *state.find_action(id);
    state.dialog.release(); // NOLINT: given back to the guard in the next line
    const std::unique_ptr<Dialog> keep_alive(this);
    state.run(action);
    return false;
}

bool PaletteDialog::draw_list(ShellState& state) {
    if (ImGui::IsWindowAppearing() || std::exchange(m_focus, false)) ImGui::SetKeyboardFocusHere();
    ImGui::SetNextItemWidth(-1);
    const std::string before = m_query;
    const bool enter =
        ImGui::InputTextWithHint("##query", "Name of a command, parameter, signal or panel; words of a note",
                                 &m_query, ImGuiInputTextFlags_EnterReturnsTrue);
    if (before != m_query) m_chosen = 0;
    if (ImGui::IsKeyPressed(ImGuiKey_Escape, false)) return false;
    const std::vector<Entry> hits = matching(state);
    if (ImGui::IsKeyPressed(ImGuiKey_DownArrow)) ++m_chosen;
    if (ImGui::IsKeyPressed(ImGuiKey_UpArrow)) --m_chosen;
    m_chosen = hits.empty() ? 0 : std::clamp(m_chosen, 0, static_cast<int>(hits.size()) - 1);

    const Entry* chosen = enter && !hits.empty() ? &hits[static_cast<size_t>(m_chosen)] : nullptr;
    const float em = ImGui::GetFontSize();
    if (ImGui::BeginChild("hits", ImVec2(0, em * 20))) {
        ImGui::PushItemFlag(ImGuiItemFlags_NoNav, true); // up and down choose a line; the entry stays focused
        for (size_t i = 0; i < hits.size(); ++i) {
            const Entry& entry = hits[i];
            const bool marked = static_cast<int>(i) == m_chosen;
            ImGui::BeginDisabled(!entry.enabled);
            if (ImGui::Selectable((entry.name + "###" + entry.id).c_str(), marked)) chosen = &entry;
            ImGui::EndDisabled();
            if (marked && before != m_query) ImGui::SetScrollHereY();
            if (ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip | ImGuiHoveredFlags_AllowWhenDisabled))
                ImGui::SetTooltip("%s", entry.help.c_str());
            if (entry.keys.empty()) continue;
            ImGui::SameLine();
            ImGui::PushStyleColor(ImGuiCol_Text, state.ctx.theme.text_muted);
            text_right_aligned(entry.keys, content_right() - em * 0.3F);
            ImGui::PopStyleColor();
        }
        ImGui::PopItemFlag();
        if (hits.empty()) muted_text(state.ctx, "Nothing has this name");
    }
    ImGui::EndChild();
    if (!chosen || !chosen->enabled) return true;
    const auto choose = chosen->choose; // of a copy: the dialog may be gone when it returns
    return choose(state);
}

bool PaletteDialog::set(ShellState& state, const Parameter& parameter, const std::string& value) {
    try {
        state.ctx.drafts.edit(state.ctx.engine, parameter.key, value);
        return true;
    } catch (const Error& e) {
        m_fault = e.problem() + (e.hint().empty() ? "" : "; " + e.hint());
        m_focus = true;
        return false;
    }
}

/// The new value of a parameter: typed, or one of its choices.
bool PaletteDialog::draw_value(ShellState& state, const Parameter& parameter) {
    ImGui::TextUnformatted(std::string(parameter.label).c_str());
    muted_text(state.ctx, parameter.help);
    std::vector<std::string> choices(parameter.choices.begin(), parameter.choices.end());
    if (parameter.kind == Parameter::Kind::boolean) choices = {"true", "false"};
    for (const std::string& choice : choices) {
        const char* shown = parameter.kind != Parameter::Kind::boolean ? choice.c_str()
                            : choice == "true"                         ? "on"
                                                                       : "off";
        if (ImGui::Selectable(shown, choice == m_value)) return !set(state, parameter, choice);
    }
    if (!choices.empty()) return true;
    if (std::exchange(m_focus, false)) ImGui::SetKeyboardFocusHere();
    ImGui::SetNextItemWidth(ImGui::GetFontSize() * 12);
    const bool enter = ImGui::InputText(
        "##value", &m_value, ImGuiInputTextFlags_EnterReturnsTrue | ImGuiInputTextFlags_AutoSelectAll);
    ImGui::SameLine();
    const std::string unit = parameter.unit.empty() ? "" : shown_unit(parameter.unit) + ", ";
    ImGui::TextDisabled("%s%s%s to %s", unit.c_str(), parameter.optional ? "none or " : "",
                        exact_number(parameter.min).c_str(), exact_number(parameter.max).c_str());
    if (!m_fault.empty()) {
        ImGui::PushStyleColor(ImGuiCol_Text, state.ctx.theme.text_error);
        ImGui::TextWrapped("%s", m_fault.c_str());
        ImGui::PopStyleColor();
    }
    return !(enter && set(state, parameter, m_value));
}

} // namespace

std::unique_ptr<Dialog> make_palette_dialog() {
    return std::make_unique<PaletteDialog>();
}

} // namespace refreshlab::ui
