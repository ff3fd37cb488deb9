#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace refreshlab::ui {

/// A colour with its opacity, 0xAABBGGRR: RGBA8 in memory, and Dear ImGui's ImU32.
using Colour = uint32_t;

/// \param red, green, blue, alpha  0 .. 255
[[nodiscard]] constexpr Colour rgba(uint32_t red, uint32_t green, uint32_t blue, uint32_t alpha = 255) {
    return alpha << 24U | blue << 16U | green << 8U | red;
}
inline constexpr Colour alpha_mask = 0xFF000000U;

/// The same colour with another opacity, 0-1.
[[nodiscard]] Colour with_alpha(Colour colour, float alpha);
/// `a` where share is 0, `b` where it is 1; opacity too.
[[nodiscard]] Colour mix(Colour a, Colour b, float share);
/// "#RRGGBB" or "#RRGGBBAA". Throws Error{bad_input} naming `what`.
[[nodiscard]] Colour parse_colour(std::string_view text, const std::string& what);

/// "#rrggbb", without the opacity.
[[nodiscard]] std::string colour_text(Colour colour);

/// WCAG 2 contrast ratio of two opaque colours, 1 .. 21.
[[nodiscard]] double contrast(Colour a, Colour b);
/// Text colour (black or white) that is read best on `background`: by relative luminance (WCAG 2).
[[nodiscard]] Colour readable_on(Colour background);

} // namespace refreshlab::ui
