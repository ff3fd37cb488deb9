#pragma once

#include "ui/base/colour.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refreshlab::ui {

/// Colours of the project, from assets/themes/<name>.json (dark, light, print). One accent colour for what acts
/// (refresh); Okabe-Ito for signals, the same colour for a signal's line, threshold, card and markers.
struct Theme {
    std::string name = "dark";
    std::string look =
        "dark"; ///< the name, and another text for every choice of colours: what was drawn in them is old when it changes
    Colour accent = 0, accent_text = 0; ///< "Refresh now", pending refreshes
    Colour accent_ink = 0;              ///< the accent as text on the window's background
    Colour text = 0, text_muted = 0, text_error = 0, text_ok = 0;
    Colour tag_text = 0; ///< words on every tag and badge, whatever their colour
    Colour card = 0;     ///< background of a card in a panel
    Colour plot_background = 0, plot_border = 0, grid = 0, crosshair = 0, selection = 0;
    Colour origin_prefill = 0, origin_refresh = 0, origin_student = 0, origin_skipped = 0, absent_a = 0,
           absent_b = 0;
    bool dark = true;
    /// Colour maps (scene/maps/colour_maps.h): of amounts, of ages, of values with a sign.
    std::string map_amounts = "viridis", map_ages = "cividis", map_signed = "rdbu";

    /// Line colour of a signal, by name; stable, from Okabe-Ito (yellow last).
    [[nodiscard]] Colour signal(std::string_view name) const;
    /// Colour of a refresh marker: that of the trigger's signal, the accent for several, the manual colour for 'H'.
    [[nodiscard]] Colour marker(std::string_view first_signal, char letter) const;

    /// Ground of a tag: the colour itself, or so much away from `tag_text` that the words are readable on it (WCAG 2: 4.5).
    [[nodiscard]] Colour tag(Colour colour) const;

    std::vector<std::pair<std::string, Colour>> signal_colours; ///< read from the file
    Colour manual = 0, several = 0;
};

/// Throws Error{bad_input} naming file and field.
[[nodiscard]] Theme load_theme(const std::filesystem::path& assets, const std::string& name);
/// dark, light, print first, then others by name.
[[nodiscard]] std::vector<std::string> theme_names(const std::filesystem::path& assets);

} // namespace refreshlab::ui
