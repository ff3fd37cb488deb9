#include "ui/base/colour.h"

#include "engine/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace refreshlab::ui {
namespace {

/// Relative luminance of an opaque colour, 0 .. 1 (WCAG 2).
double luminance(Colour colour) {
    const auto channel = [&](unsigned shift) { // sRGB transfer function, IEC 61966-2-1
        const double c = static_cast<double>((colour >> shift) & 0xFFU) / 255.0;
        return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * channel(0) + 0.7152 * channel(8) + 0.0722 * channel(16);
}

} // namespace

Colour with_alpha(Colour colour, float alpha) {
    const auto a = static_cast<Colour>(std::lround(std::clamp(alpha, 0.0F, 1.0F) * 255.0F));
    return (colour & ~alpha_mask) | (a << 24U);
}

Colour mix(Colour a, Colour b, float share) {
    const float s = std::clamp(share, 0.0F, 1.0F);
    Colour result = 0;
    for (const int shift : {0, 8, 16, 24}) {
        const auto x = static_cast<float>((a >> shift) & 0xFFU), y = static_cast<float>((b >> shift) & 0xFFU);
        result |= static_cast<Colour>(std::lround(x + (y - x) * s)) << shift;
    }
    return result;
}

Colour parse_colour(std::string_view text, const std::string& what) {
    const auto wrong = [&] {
        return Error("reading a theme", what, fmt::format("\"{}\" is no colour", text),
                     "write #RRGGBB or #RRGGBBAA");
    };
    if ((text.size() != 7 && text.size() != 9) || text[0] != '#') throw wrong();
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), value, 16);
    if (error != std::errc() || end != text.data() + text.size()) throw wrong();
    if (text.size() == 7) value = (value << 8) | 0xFFU;
    return rgba(value >> 24, (value >> 16) & 0xFFU, (value >> 8) & 0xFFU, value & 0xFFU);
}

std::string colour_text(Colour colour) {
    return fmt::format("#{:02x}{:02x}{:02x}", colour & 0xFFU, colour >> 8U & 0xFFU, colour >> 16U & 0xFFU);
}

double contrast(Colour a, Colour b) {
    const double x = luminance(a), y = luminance(b);
    return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

Colour readable_on(Colour background) {
    // Contrast with black is (L + 0.05) / 0.05, with white 1.05 / (L + 0.05): equal at L = 0.179.
    return luminance(background) > 0.179 ? rgba(0, 0, 0) : rgba(255, 255, 255);
}

} // namespace refreshlab::ui
