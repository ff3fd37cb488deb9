#pragma once

#include "ui/base/colour.h"

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace refreshlab::ui {

/// Height of the line under a coloured token, pixels.
inline constexpr float token_underline = 2;

/// Colours of tokens for one map on one background: a tint that leaves the text readable (contrast at least 4.5), and
/// the map's own colour for the underline, so that values can also be compared exactly.
class TokenColours {
public:
    struct Entry {
        uint32_t background, text, underline;
    };
    /// \param map         256 entries, 0xAABBGGRR
    /// \param background  of the panel, opaque
    /// \param text        preferred text colour
    void build(std::span<const uint32_t> map, uint32_t background, uint32_t text);
    /// One colour alone, treated like those of a map.
    [[nodiscard]] static Entry entry(uint32_t colour, uint32_t background, uint32_t text);
    /// \param fraction  0..1, clamped
    [[nodiscard]] const Entry& at(double fraction) const;
    [[nodiscard]] bool matches(const uint32_t* map, uint32_t background, uint32_t text) const {
        return m_map == map && m_background == background && m_text == text;
    }

private:
    std::array<Entry, 256> m_entries{};
    const uint32_t* m_map = nullptr;
    uint32_t m_background = 0, m_text = 0;
};

/// A signal that says yes or no of a token (task_score, top1_hit) has words and two colours instead of a scale.
struct Verdicts {
    std::string_view yes, no, neither; ///< for people: 1, 0, absent
};
/// Null for signals that are measured on a scale.
[[nodiscard]] const Verdicts* verdicts_of(std::string_view signal);
/// Right or wrong as a colour: bluish green and vermilion of Okabe and Ito, which also people without red-green vision
/// tell apart; wrong tokens are struck as well, so that no colour is needed.
[[nodiscard]] uint32_t verdict_colour(bool yes);

} // namespace refreshlab::ui
