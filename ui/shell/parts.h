#pragma once

#include "ui/state/shell_state.h"

#include <string_view>
#include <vector>

namespace refreshlab::ui {

// The parts that ui/shell/shell.cpp puts together.

/// The one action table (development/ui.md, section 2). The functions keep a reference to `state`.
[[nodiscard]] std::vector<Action> make_actions(ShellState& state);

/// Its parts about the window, and about help.
[[nodiscard]] std::vector<Action> make_window_actions(ShellState& state);
[[nodiscard]] std::vector<Action> make_help_actions(ShellState& state);
/// And about landscapes.
[[nodiscard]] std::vector<Action> make_landscape_actions(ShellState& state);

void draw_menu_bar(ShellState& state);
/// Fixed strip under the menu. \return its height in pixels
float draw_run_bar(ShellState& state, float y);
void draw_toasts(ShellState& state);
void draw_hint_card(ShellState& state);
/// One menu line: label, shortcut, check mark; the reason as tooltip while disabled.
void action_menu_item(ShellState& state, std::string_view id);

} // namespace refreshlab::ui
