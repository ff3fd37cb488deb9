#include "ui/scene/text/token_colours.h"

#include "ui/base/colour.h"

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {
namespace {

constexpr float tint = 0.72F, verdict_tint = 0.42F; // share of the colour behind the text
constexpr float least_tint = 0.05F;                 // of the lowest value: it was measured, and that is seen
constexpr double least_contrast = 4.5;              // WCAG 2, level AA

/// The largest share of `colour` in the background on which the text can be read.
float readable_share(uint32_t colour, uint32_t background, uint32_t text, float share) {
    while (contrast(mix(background, colour, share), text) < least_contrast && share > 0.02F)
        share *= 0.95F;
    return share;
}

} // namespace

void TokenColours::build(uint32_t colour, uint32_t background, uint32_t text) {
    m_colour = colour;
    m_background = background;
    m_text = text;
    const uint32_t opaque = colour | 0xFF000000U;
    const float most = most_share(colour, background, text);
    const auto last = static_cast<float>(m_entries.size() - 1);
    for (size_t i = 0; i < m_entries.size(); ++i) {
        const float fraction = static_cast<float>(i) / last;
        m_entries[i] = {mix(background, opaque, most * std::max(least_tint, fraction)), text,
                        fraction < 0.1F ? 0 : mix(background, opaque, fraction)};
    }
}

float TokenColours::most_share(uint32_t colour, uint32_t background, uint32_t text) {
    return readable_share(colour | 0xFF000000U, background, text, tint);
}

TokenColours::Entry TokenColours::entry(uint32_t colour, uint32_t background, uint32_t text) {
    const uint32_t opaque = colour | 0xFF000000U;
    return {mix(background, opaque, readable_share(opaque, background, text, verdict_tint)), text, opaque};
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
