#pragma once

#include "ui/scene/theme/chosen_colours.h"

#include <map>
#include <string>

namespace refreshlab::ui {

struct ShellState;

/// The page "Colours" of the settings: a colour for each signal and the colour maps, of the shown theme or of figures on paper.
class ColourSettings {
public:
    void draw(ShellState& state);

private:
    void draw_maps(ShellState& state);
    void draw_signals(ShellState& state);
    /// As it is without what was chosen.
    const Theme& usual(const ShellState& state);
    ChosenColours& chosen(ShellState& state);
    void changed(ShellState& state) const;

    bool m_paper = false;
    std::string m_of; ///< name of the theme whose colours are shown
    std::map<std::string, Theme, std::less<>> m_usual;
};

} // namespace refreshlab::ui
