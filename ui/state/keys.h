#pragma once

#include "ui/state/action.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// Keys that a person has given actions, by the action's id, as shortcut_text() writes them; "" is no key. What is not listed has the
/// key of the action table.
using ChosenKeys = std::map<std::string, std::string, std::less<>>;

/// Reads what shortcut_text() writes. 0 for ""; nothing where there is no such key.
[[nodiscard]] std::optional<ImGuiKeyChord> parse_shortcut(std::string_view text);

/// Gives every action its key: the chosen one, else Action::usual_shortcut. No two have the same: a chosen key is taken from whoever has
/// it by the table, and of two that were chosen the first action of the table keeps it. Names that nobody knows count as not chosen.
void apply_keys(std::vector<Action>& actions, const ChosenKeys& chosen);

/// The action that has this key; null: none.
[[nodiscard]] const Action* action_of_key(const std::vector<Action>& actions, ImGuiKeyChord chord);

/// From now on this action has this key, and nobody else; 0 is none. With the key of the table it counts as not chosen any more.
void choose_key(std::vector<Action>& actions, ChosenKeys& chosen, std::string_view id, ImGuiKeyChord chord);

} // namespace refreshlab::ui
