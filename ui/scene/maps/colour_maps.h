#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace refreshlab::ui {

/// The project's colour maps: 256 entries each, 0xAABBGGRR (RGBA8 in memory), from the lowest value to the
/// highest. viridis (default), cividis (colour vision deficiencies), rdbu (signed: blue below zero, white, red above), rdbu_dark (the same about a dark middle), greys
/// (print: white is none). Never jet. Written by scripts/make_colour_maps.py from assets/colours/.
/// Throws Error{bad_input} listing the names.
[[nodiscard]] std::span<const uint32_t> colour_map(std::string_view name);
[[nodiscard]] std::span<const std::string_view> colour_map_names();

/// A measured NaN; on no map. (What was not measured at all is the hatch of draw_absent.)
inline constexpr uint32_t nan_colour = 0xFFFF00FFU;

/// Values to colours. Linear: min -> first entry, max -> last. Log: the same on log10 with `min` > 0 as the floor; with `min` < 0
/// on both sides of 0, which is the middle of the map: about linear within `signed_linear` of the larger end (symlog).
/// Values outside are clamped; NaN gives nan_colour. An empty range (max <= min) gives the first entry.
struct ColourScale {
    std::span<const uint32_t> map = colour_map("viridis");
    double min = 0, max = 1;
    bool log = false;

    static constexpr double signed_linear = 0.02;

    [[nodiscard]] uint32_t operator()(double value) const { return colour(fraction(value)); }
    /// 0..1 along the map; NaN stays NaN.
    [[nodiscard]] double fraction(double value) const;
    [[nodiscard]] uint32_t colour(double fraction) const;
    /// The value at a place of the bar, inverse of fraction().
    [[nodiscard]] double value_at(double fraction) const;
};

/// "3.42", "0.061", "1.2e-05": three significant digits.
[[nodiscard]] std::string three_digits(double value);

} // namespace refreshlab::ui
