#include "ui/scene/text/token_colours.h"

#include "ui/base/colour.h"

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {
namespace {

constexpr float tint = 0.42F;          // share of the map's colour behind the text
constexpr double least_contrast = 4.5; // WCAG 2, level AA

} // namespace

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
    return yes ? rgba(0x00, 0x9E, 0x73) : rgba(0xD5, 0x5E, 0x00);
}

const TokenColours::Entry& TokenColours::at(double fraction) const {
    const double clamped = std::clamp(std::isfinite(fraction) ? fraction : 0.0, 0.0, 1.0);
    return m_entries[static_cast<size_t>(std::lround(clamped * 255))];
}

} // namespace refreshlab::ui
