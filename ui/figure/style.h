#pragma once

#include "ui/scene/theme/theme.h"

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// How a figure looks, from assets/figures/paper.json and from a person's own file of the same keys; how a panel does, from
/// screen_style(). Sizes are points on paper, pixels on the screen.
struct FigureStyle {
    Theme theme;         ///< colours of signals, origins, markers; maps
    double text_pt = 8;  ///< labels of axes, legends
    double small_pt = 7; ///< ticks, notes
    double line_pt = 0.8, axis_pt = 0.5;
    double tick_pt = 2.5;  ///< length of a tick
    double spacing = 1.35; ///< of lines of text, in their height
    bool on_screen =
        false;           ///< whole pixels; words of axes and legends are muted, as they stand beside others
    bool letters = true; ///< (a), (b) where a figure has several parts
    std::vector<Colour> runs; ///< of compared runs, in order; at least one

    [[nodiscard]] Colour ink() const { return on_screen ? theme.text_muted : theme.text; }
    /// A length that repeats, such as that from line to line.
    [[nodiscard]] double pitch(double length) const { return on_screen ? std::round(length) : length; }
};

/// How panels draw. \param em  height of the font, pixels
[[nodiscard]] FigureStyle screen_style(const Theme& theme, double em);

/// \param name  "paper", or a theme of the window (dark, light, print): its colours in the sizes of paper
/// \param own   empty, or a JSON file whose keys replace those of the style: theme, text_pt, small_pt, line_pt, axis_pt, letters,
///              maps {amounts, ages, signed}, runs [colours], signals {name: colour}
/// Throws Error{bad_input} naming file and key: unknown keys with the nearest known one, sizes outside of 4 .. 24 and
/// 0.1 .. 5 points, what is no colour and no map.
[[nodiscard]] FigureStyle load_figure_style(const std::filesystem::path& assets, const std::string& name,
                                            const std::filesystem::path& own = {});

} // namespace refreshlab::ui
