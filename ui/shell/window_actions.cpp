// What changes the window itself, and what helps.
#include "ui/dialogs/dialogs.h"
#include "ui/panels/panel.h"
#include "ui/shell/parts.h"
#include "ui/state/dialog.h"
#include "ui/state/layout.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace refreshlab::ui {

namespace {

/// Why there can be no further panel of the kind that was used last; empty where there can.
std::string why_no_other(const ShellState& state) {
    const Panel* const used = state.find_panel(state.used_panel);
    if (used == nullptr) return "No panel was clicked yet";
    const auto kind = std::ranges::find(panel_kinds(), used->kind(), &PanelKind::title);
    if (kind == panel_kinds().end() || kind->swap_views == nullptr)
        return fmt::format("Two panels {} would show the same", used->title());
    const auto open = std::ranges::count_if(state.panels, [&](const auto& panel) {
        const auto found = state.panel_open.find(panel->title());
        return panel->kind() == used->kind() && found != state.panel_open.end() && found->second;
    });
    return open < most_of_a_kind ? std::string() : fmt::format("{} of them are open", open);
}

} // namespace

std::vector<Action> make_window_actions(ShellState& state) {
    std::vector<Action> list;
    for (const std::string& name : theme_names(state.ctx.host.assets())) {
        std::string label = name;
        label[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(label[0])));
        list.push_back({"view.theme." + name,
                        "View/Theme",
                        label,
                        "Changes the colours to the theme " + name + ".",
                        0,
                        [&state, name](UiContext&) { state.wanted_theme = name; },
                        {},
                        [name](const UiContext& ctx) { return ctx.theme.name == name; }});
    }
    constexpr ImGuiKey numbers[] = {ImGuiKey_1, ImGuiKey_2, ImGuiKey_3, ImGuiKey_4};
    const char* const helps[] = {"All panels.", "Signals large, with policy and text.",
                                 "Text and signals only, in larger type, for a projector.",
                                 "What every refresh is worth, with signals, text and policy."};
    for (size_t i = 0; i < layout_names().size(); ++i) {
        const std::string& name = layout_names()[i];
        std::string id = "view.layout." + name;
        std::ranges::transform(id, id.begin(),
                               [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        list.push_back({id,
                        "View/Layout",
                        name,
                        helps[i],
                        ImGuiMod_Ctrl | numbers[i],
                        [&state, name](UiContext&) {
                            state.wanted_layout = name;
                            state.wanted_layout_bundled = false;
                        },
                        {},
                        [&state, name](const UiContext&) { return state.settings.layout == name; }});
    }
    list.push_back({"view.layout.reset", "View/Layout", "Reset layout",
                    "Puts the panels of this layout back to their first places.", 0, [&state](UiContext&) {
                        state.wanted_layout = state.settings.layout;
                        state.wanted_layout_bundled = true;
                    }});
    list.push_back({"view.enlarge", "View", "Enlarge the panel",
                    "Shows the panel that was clicked last over the others, or puts it back (Esc as well).",
                    ImGuiKey_F11, [&state](UiContext&) { state.enlarge_used = true; },
                    unless([&state](const UiContext&) { return !state.used_panel.empty(); },
                           "No panel was clicked yet")});
    list.push_back(
        {"view.another", "View", "Another panel like this",
         "Opens a second panel of the kind that was clicked last beside it, with a view of its own.", 0,
         [&state](UiContext&) { state.wanted_another = state.used_panel; },
         [&state](const UiContext&) { return why_no_other(state); }});
    list.push_back({"view.layout.lock",
                    "View/Layout",
                    "Lock layout",
                    "Keeps panels from being moved or resized by accident.",
                    0,
                    [&state](UiContext&) { state.settings.layout_locked = !state.settings.layout_locked; },
                    {},
                    [&state](const UiContext&) { return state.settings.layout_locked; }});
    const auto scale = [&state](bool up) {
        state.settings.user_scale = next_scale(state.settings.user_scale, up);
        state.wanted_theme = state.ctx.theme.name;
    };
    list.push_back({"view.scale_up", "View", "Larger", "Enlarges text and controls.",
                    ImGuiMod_Ctrl | ImGuiKey_Equal, [scale](UiContext&) { scale(true); },
                    unless([&state](const UiContext&) { return state.settings.user_scale < max_user_scale; },
                           "300 % is the largest size")});
    list.push_back({"view.scale_down", "View", "Smaller", "Reduces text and controls.",
                    ImGuiMod_Ctrl | ImGuiKey_Minus, [scale](UiContext&) { scale(false); },
                    unless([&state](const UiContext&) { return state.settings.user_scale > min_user_scale; },
                           "75 % is the smallest size")});
    list.push_back({"view.scale_reset", "View", "Normal size", "Text and controls at 100 %.",
                    ImGuiMod_Ctrl | ImGuiKey_0, [&state](UiContext& ctx) {
                        state.settings.user_scale = 1;
                        state.wanted_theme = ctx.theme.name;
                    }});
    return list;
}

std::vector<Action> make_help_actions(ShellState& state) {
    std::vector<Action> list;
    list.push_back({"help.shortcuts", "Help", "Shortcuts and gestures",
                    "Lists every key and what the mouse does.", ImGuiKey_F1,
                    [&state](UiContext&) { state.dialog = make_shortcuts_dialog(); }});
    list.push_back({"help.legend", "Help", "Terms and letters",
                    "What the words and the letters of the window mean.", ImGuiMod_Shift | ImGuiKey_F1,
                    [&state](UiContext&) { state.dialog = make_legend_dialog(); }});
    list.push_back(
        {"help.tour", "Help", "Tour...",
         "Chapters that teach the window while you use it, from the first drift to a printed figure.",
         ImGuiKey_F2, [&state](UiContext&) { state.dialog = make_tour_dialog(); }});
    list.push_back({"help.first_hints", "Help", "Show the first hints",
                    "Shows the card of the first start once more.", 0,
                    [&state](UiContext&) { state.hints_recalled_s = ImGui::GetTime(); }});
    list.push_back({"help.palette", "Help", "Find a command...",
                    "Finds commands, parameters, signals and panels by their names.",
                    ImGuiMod_Ctrl | ImGuiKey_P,
                    [&state](UiContext&) { state.dialog = make_palette_dialog(); }});
    list.push_back({"help.about", "Help", "About RefreshLab", "Version, libraries and licences.", 0,
                    [&state](UiContext&) { state.dialog = make_about_dialog(); }});
    return list;
}

} // namespace refreshlab::ui
