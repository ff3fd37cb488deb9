#pragma once

#include "ui/state/shell_state.h"

#include <string>

namespace refreshlab::ui {

enum class Icon { none, play, pause, step, refresh };

struct ButtonLook {
    Icon icon = Icon::none;
    bool accent = false;
    bool pending = false; ///< hollow: asked for, not done yet
    float min_width = 0;  ///< so that a changing label does not move its neighbours
};

[[nodiscard]] float button_width(const std::string& label, const ButtonLook& look);
/// A button for one action of the table; `label` may say more than the table does ("Rewind to 171").
void action_button(ShellState& state, const char* id, const std::string& label, const ButtonLook& look);

} // namespace refreshlab::ui
