#include "ui/state/action.h"

#include <cctype>
#include <map>
#include <set>

namespace refreshlab::ui {

std::vector<std::string> check_actions(const std::vector<Action>& actions) {
    std::vector<std::string> problems;
    std::set<std::string> ids;
    std::map<ImGuiKeyChord, std::string> keys;
    for (const Action& action : actions) {
        if (!ids.insert(action.id).second) problems.push_back(action.id + ": listed twice");
        if (action.label.empty() || std::islower(static_cast<unsigned char>(action.label[0])))
            problems.push_back(action.id + ": label must begin with a capital");
        if (!action.label.ends_with("...") && action.label.ends_with('.'))
            problems.push_back(action.id + ": label ends with a full stop");
        if (!action.help.ends_with('.')) problems.push_back(action.id + ": help is no sentence");
        if (!action.run) problems.push_back(action.id + ": does nothing");
        if (action.shortcut == 0) continue;
        const auto [it, fresh] = keys.emplace(action.shortcut, action.id);
        if (!fresh) problems.push_back(action.id + ": same shortcut as " + it->second);
    }
    return problems;
}

std::string shortcut_text(ImGuiKeyChord chord) {
    if (chord == 0) return {};
    std::string text;
    if (chord & ImGuiMod_Ctrl) text += "Ctrl+";
    if (chord & ImGuiMod_Alt) text += "Alt+";
    if (chord & ImGuiMod_Shift) text += "Shift+";
    switch (static_cast<ImGuiKey>(chord & ~ImGuiMod_Mask_)) {
    case ImGuiKey_Period:
        return text + ".";
    case ImGuiKey_Comma:
        return text + ",";
    case ImGuiKey_LeftBracket:
        return text + "[";
    case ImGuiKey_RightBracket:
        return text + "]";
    case ImGuiKey_Equal:
        return text + "=";
    case ImGuiKey_Minus:
        return text + "-";
    case ImGuiKey_LeftArrow:
        return text + "Left";
    case ImGuiKey_RightArrow:
        return text + "Right";
    default:
        return text + ImGui::GetKeyName(static_cast<ImGuiKey>(chord & ~ImGuiMod_Mask_));
    }
}

std::string way_to(const Action& action) {
    return action.shortcut != 0 ? shortcut_text(action.shortcut) : action.menu + " > " + action.label;
}

} // namespace refreshlab::ui
