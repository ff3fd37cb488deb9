#pragma once

#include <imgui.h>

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
    ImU32 accent = 0, accent_text = 0; ///< "Refresh now", pending refreshes
    ImU32 accent_ink = 0;              ///< the accent as text on the window's background
    ImU32 text = 0, text_muted = 0, text_error = 0, text_ok = 0;
    ImU32 card = 0; ///< background of a card in a panel
    ImU32 plot_background = 0, plot_border = 0, grid = 0, crosshair = 0, selection = 0;
    ImU32 origin_prefill = 0, origin_refresh = 0, origin_student = 0, origin_skipped = 0, absent_a = 0,
          absent_b = 0;
    bool dark = true;

    /// Line colour of a signal, by name; stable, from Okabe-Ito (yellow last).
    [[nodiscard]] ImU32 signal(std::string_view name) const;
    /// Colour of a refresh marker: that of the trigger's signal, the accent for several, the manual colour for 'H'.
    [[nodiscard]] ImU32 marker(std::string_view first_signal, char letter) const;

    std::vector<std::pair<std::string, ImU32>> signal_colours; ///< read from the file
    ImU32 manual = 0, several = 0;
};

/// Throws Error{bad_input} naming file and field.
[[nodiscard]] Theme load_theme(const std::filesystem::path& assets, const std::string& name);
/// Sets ImGui's and ImPlot's styles from the theme's file; `scale` is user scale times display density (0.75-3 x 1-3).
void apply_theme(const std::filesystem::path& assets, const Theme& theme, float scale);
/// dark, light, print first, then others by name.
[[nodiscard]] std::vector<std::string> theme_names(const std::filesystem::path& assets);

/// The same colour with another opacity, 0-1.
[[nodiscard]] ImU32 with_alpha(ImU32 colour, float alpha);
/// `a` where share is 0, `b` where it is 1; opacity too.
[[nodiscard]] ImU32 mix(ImU32 a, ImU32 b, float share);
/// Black or white, whichever reads better on `background` (defined in colour_maps.cpp, which has the luminance).
[[nodiscard]] ImU32 readable_on(ImU32 background);
/// "#RRGGBB" or "#RRGGBBAA". Throws Error{bad_input} naming `what`.
[[nodiscard]] ImU32 parse_colour(std::string_view text, const std::string& what);

} // namespace refreshlab::ui
