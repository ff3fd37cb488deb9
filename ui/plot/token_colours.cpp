#include "ui/plot/token_colours.h"

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {
namespace {

double luminance_of(uint32_t colour) {
    const auto channel = [&](int shift) {
        const double c = static_cast<double>((colour >> shift) & 0xFFU) / 255.0;
        return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * channel(0) + 0.7152 * channel(8) + 0.0722 * channel(16);
}

constexpr float tint = 0.42F;          // share of the map's colour behind the text
constexpr double least_contrast = 4.5; // WCAG 2, level AA

} // namespace

double contrast(uint32_t a, uint32_t b) {
    const double x = luminance_of(a), y = luminance_of(b);
    return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

void TokenColours::build(std::span<const uint32_t> map, uint32_t background, uint32_t text) {
    m_map = map.data();
    m_background = background;
    m_text = text;
    for (size_t i = 0; i < m_entries.size(); ++i)
        m_entries[i] = entry(map[i], background, text);
}

TokenColours::Entry TokenColours::entry(uint32_t colour, uint32_t background, uint32_t text) {
    Entry e{background, text, colour | 0xFF000000U};
    // Less tint where the text would drown; the underline keeps the full colour.
    float share = tint;
    e.background = mix(background, e.underline, share);
    while (contrast(e.background, text) < least_contrast && share > 0.02F) {
        share *= 0.9F;
        e.background = mix(background, e.underline, share);
    }
    return e;
}

const Verdicts* verdicts_of(std::string_view signal) {
    static constexpr Verdicts task{"right", "wrong", "not scored"},
        choice{"first choice", "another choice", "not known"};
    if (signal == "task_score") return &task;
    if (signal == "top1_hit") return &choice;
    return nullptr;
}

uint32_t verdict_colour(bool yes) {
    return yes ? IM_COL32(0x00, 0x9E, 0x73, 255) : IM_COL32(0xD5, 0x5E, 0x00, 255);
}

const TokenColours::Entry& TokenColours::at(double fraction) const {
    const double clamped = std::clamp(std::isfinite(fraction) ? fraction : 0.0, 0.0, 1.0);
    return m_entries[static_cast<size_t>(std::lround(clamped * 255))];
}

} // namespace refreshlab::ui
