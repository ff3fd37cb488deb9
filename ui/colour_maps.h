#pragma once

#include <imgui.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace refreshlab::ui {

struct Theme;
class TokenColours;

/// The project's colour maps: 256 entries each, 0xAABBGGRR (ImU32, and RGBA8 in memory), from the lowest value to the
/// highest. viridis (default), cividis (colour vision deficiencies), rdbu (signed: blue below zero, red above), greys
/// (print: white is none). Never jet. Written by scripts/make_colour_maps.py from assets/colours/.
/// Throws Error{bad_input} listing the names.
[[nodiscard]] std::span<const uint32_t> colour_map(std::string_view name);
[[nodiscard]] std::span<const std::string_view> colour_map_names();

/// A measured NaN; on no map. (What was not measured at all is the hatch of draw_absent.)
inline constexpr uint32_t nan_colour = 0xFFFF00FFU;

/// Values to colours. Linear: min -> first entry, max -> last. Log: the same on log10 with `min` > 0 as the floor.
/// Values outside are clamped; NaN gives nan_colour. An empty range (max <= min) gives the first entry.
struct ColourScale {
    std::span<const uint32_t> map = colour_map("viridis");
    double min = 0, max = 1;
    bool log = false;

    [[nodiscard]] uint32_t operator()(double value) const { return colour(fraction(value)); }
    /// 0..1 along the map; NaN stays NaN.
    [[nodiscard]] double fraction(double value) const;
    [[nodiscard]] uint32_t colour(double fraction) const;
    /// The value at a place of the bar, inverse of fraction().
    [[nodiscard]] double value_at(double fraction) const;
};

/// Text colour (black or white) that is read best on `background`: by relative luminance (WCAG 2).
[[nodiscard]] uint32_t readable_on(uint32_t background);

/// "3.42", "0.061", "1.2e-05": three significant digits.
[[nodiscard]] std::string three_digits(double value);

/// Draws a horizontal bar of the scale at the cursor with its end values beside it: "0 [####] 8 bits". One item.
/// \param width   of the bar alone, pixels
/// \param tokens  of the Text panel: the bar then shows what its tokens show, tint and underline; null: the map's colours
void draw_colour_bar(const char* id, const ColourScale& scale, float width, std::string_view unit = {},
                     const TokenColours* tokens = nullptr);

/// Hatch for "not measured" between two corners, on the theme's absent colours.
void draw_absent(ImDrawList* list, const Theme& theme, ImVec2 min, ImVec2 max);

/// The map as an ImPlot colormap of the current ImPlot context, added on first use (an ImPlotColormap).
[[nodiscard]] int implot_colour_map(std::string_view name);

} // namespace refreshlab::ui
