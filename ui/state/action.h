#pragma once

#include "ui/context/context.h"

#include <functional>
#include <string>
#include <string_view>
#include <utility>
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
    std::function<std::string(const UiContext&)> why_not = {}; ///< why it cannot be done now; empty: it can
    std::function<bool(const UiContext&)> checked = {};        ///< for toggles
    /// That of the table, where a person has chosen another (ui/state/keys.h).
    ImGuiKeyChord usual_shortcut = 0;

    [[nodiscard]] std::string reason(const UiContext& ctx) const {
        return why_not ? why_not(ctx) : std::string();
    }
    [[nodiscard]] bool enabled(const UiContext& ctx) const { return reason(ctx).empty(); }
};

/// For Action::why_not: the words, unless the condition holds.
template <class Condition>
[[nodiscard]] auto unless(Condition can, std::string words) {
    return [can = std::move(can), words = std::move(words)](const UiContext& ctx) {
        return can(ctx) ? std::string() : words;
    };
}

/// Checks that ids are unique, that labels begin with a capital and have no final full stop, that shortcuts do not
/// collide. \return problems, one per line; empty when all is well
[[nodiscard]] std::vector<std::string> check_actions(const std::vector<Action>& actions);

/// "Ctrl+Shift+E" for people.
[[nodiscard]] std::string shortcut_text(ImGuiKeyChord chord);
/// What a text asks somebody to press: its key, or where it stands in the menus, "Run > Refresh now".
[[nodiscard]] std::string way_to(const Action& action);

} // namespace refreshlab::ui
