#pragma once

#include "ui/context/context.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// One thing a person can do. The table drives menu, button, shortcut, palette, help sheet and tests.
struct Action {
    std::string id;             ///< "run.refresh_now"
    std::string menu;           ///< "Run"; empty = not in a menu
    std::string label;          ///< sentence case, "..." when a dialog follows
    std::string help;           ///< one sentence
    ImGuiKeyChord shortcut = 0; ///< ignored while text is typed
    std::function<void(UiContext&)> run;
    std::function<bool(const UiContext&)> enabled = {};             ///< empty = always
    std::function<std::string(const UiContext&)> why_disabled = {}; ///< tooltip of a disabled item
    std::function<bool(const UiContext&)> checked = {};             ///< for toggles
};

/// Checks that ids are unique, that labels begin with a capital and have no final full stop, that shortcuts do not
/// collide, and that every action that can be disabled says why. \return problems, one per line; empty when all is well
[[nodiscard]] std::vector<std::string> check_actions(const std::vector<Action>& actions);

/// "Ctrl+Shift+E" for people.
[[nodiscard]] std::string shortcut_text(ImGuiKeyChord chord);

} // namespace refreshlab::ui
