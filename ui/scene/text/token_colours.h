#pragma once

#include "ui/base/colour.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace refreshlab::ui {

/// Height of the line under a coloured token, pixels.
inline constexpr float token_underline = 2;

/// Colours of tokens for one signal on one background, dark or light: the lowest value is nearly the background, the
/// highest is the signal's own colour, as far as the text stays readable on it (contrast at least 4.5). The underline
/// grows from nothing to the full colour, so that high values can also be compared exactly.
class TokenColours {
public:
    struct Entry {
        uint32_t background, text;
        uint32_t underline; ///< 0 = none
    };
    /// \param colour      of the signal, 0xAABBGGRR
    /// \param background  of the panel, opaque
    /// \param text        preferred text colour
    void build(uint32_t colour, uint32_t background, uint32_t text);
    /// One colour alone, with its full underline.
    [[nodiscard]] static Entry entry(uint32_t colour, uint32_t background, uint32_t text);
    /// The share of the colour behind a token of the highest value, 0..1.
    [[nodiscard]] static float most_share(uint32_t colour, uint32_t background, uint32_t text);
    /// \param fraction  0..1, clamped
    [[nodiscard]] const Entry& at(double fraction) const;
    [[nodiscard]] uint32_t ink() const { return m_text; } ///< of text on no colour
    [[nodiscard]] bool matches(uint32_t colour, uint32_t background, uint32_t text) const {
        return m_colour == colour && m_background == background && m_text == text;
    }

private:
    std::array<Entry, 256> m_entries{};
    uint32_t m_colour = 0, m_background = 0, m_text = 0;
};

/// A signal that says yes or no of a token (task_score, top1_hit) has words and two colours instead of a scale.
struct Verdicts {
    std::string_view yes, no, neither; ///< for people: 1, 0, absent
};
/// Null for signals that are measured on a scale.
[[nodiscard]] const Verdicts* verdicts_of(std::string_view signal);
/// Right or wrong as a colour: bluish green and vermilion of Okabe and Ito, which people without red-green vision can
/// tell apart too. Wrong tokens are also struck through, so that no colour is needed.
[[nodiscard]] uint32_t verdict_colour(bool yes);

} // namespace refreshlab::ui
