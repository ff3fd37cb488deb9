#include "ui/state/keys.h"

#include <algorithm>
#include <set>

namespace refreshlab::ui {

std::optional<ImGuiKeyChord> parse_shortcut(std::string_view text) {
    if (text.empty()) return 0;
    constexpr std::pair<std::string_view, ImGuiKeyChord> modifiers[] = {
        {"Ctrl+", ImGuiMod_Ctrl}, {"Alt+", ImGuiMod_Alt}, {"Shift+", ImGuiMod_Shift}};
    ImGuiKeyChord chord = 0;
    for (const auto& [name, modifier] : modifiers) // in the order in which they are written
        if (text.starts_with(name)) {
            chord |= modifier;
            text.remove_prefix(name.size());
        }
    for (int key = ImGuiKey_NamedKey_BEGIN; key < ImGuiKey_GamepadStart; ++key)
        if (shortcut_text(key) == text) return chord | key;
    return std::nullopt;
}

void apply_keys(std::vector<Action>& actions, const ChosenKeys& chosen) {
    std::set<ImGuiKeyChord> taken;
    const auto take = [&](Action& action, ImGuiKeyChord chord) {
        action.shortcut = chord != 0 && taken.insert(chord).second ? chord : 0;
    };
    std::vector<Action*> usual;
    for (Action& action : actions) {
        const auto found = chosen.find(action.id);
        const auto chord = found == chosen.end() ? std::nullopt : parse_shortcut(found->second);
        if (chord)
            take(action, *chord);
        else
            usual.push_back(&action);
    }
    for (Action* action : usual)
        take(*action, action->usual_shortcut);
}

const Action* action_of_key(const std::vector<Action>& actions, ImGuiKeyChord chord) {
    const auto found = std::ranges::find_if(
        actions, [&](const Action& action) { return chord != 0 && action.shortcut == chord; });
    return found == actions.end() ? nullptr : &*found;
}

void choose_key(std::vector<Action>& actions, ChosenKeys& chosen, std::string_view id, ImGuiKeyChord chord) {
    for (const Action& action : actions)
        if (action.id != id && chord != 0 && action.shortcut == chord) chosen[action.id] = "";
    const auto found = std::ranges::find(actions, id, &Action::id);
    if (found == actions.end()) return;
    if (found->usual_shortcut == chord)
        chosen.erase(found->id);
    else
        chosen[found->id] = shortcut_text(chord);
    apply_keys(actions, chosen);
}

} // namespace refreshlab::ui
