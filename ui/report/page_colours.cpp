#include "ui/report/page_colours.h"

#include "ui/scene/text/token_colours.h"

#include <fmt/format.h>

#include <algorithm>

namespace refreshlab::ui {

namespace {

std::string triple(Colour colour) {
    return fmt::format("{},{},{}", colour & 0xFFU, colour >> 8U & 0xFFU, colour >> 16U & 0xFFU);
}

std::string whole(Colour colour) {
    return fmt::format("rgba({},{:.3f})", triple(colour), static_cast<double>(colour >> 24U) / 255);
}

} // namespace

std::string PageColours::named(Colour light, Colour dark) {
    const std::pair pair{light | alpha_mask, dark | alpha_mask};
    const auto found = std::ranges::find(m_pairs, pair);
    const auto index = found - m_pairs.begin();
    if (found == m_pairs.end()) m_pairs.push_back(pair);
    return fmt::format("c{}", index);
}

std::string PageColours::variables(const Theme& theme, bool dark) const {
    const std::pair<const char*, Colour> own[] = {
        {"text", theme.text},     {"muted", theme.text_muted},       {"error", theme.text_error},
        {"accent", theme.accent}, {"accent-ink", theme.accent_ink},  {"tag-text", theme.tag_text},
        {"card", theme.card},     {"ground", theme.plot_background}, {"border", theme.plot_border},
        {"grid", theme.grid},     {"crosshair", theme.crosshair},    {"selection", theme.selection}};
    std::string css;
    for (const auto& [name, colour] : own)
        css += fmt::format("--{}:{};", name, whole(colour));
    const Colour ground = theme.plot_background | alpha_mask;
    for (size_t i = 0; i < m_pairs.size(); ++i) {
        const Colour colour = dark ? m_pairs[i].second : m_pairs[i].first;
        css +=
            fmt::format("--c{}:{};--c{}-tag:{};--c{}-most:{:.3f};", i, triple(colour), i,
                        triple(theme.tag(colour)), i, TokenColours::most_share(colour, ground, theme.text));
    }
    return css;
}

std::string PageColours::css() const {
    return fmt::format(
        ":root{{color-scheme:light dark;{}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{}}}}}\n",
        variables(m_light, false), variables(m_dark, true));
}

} // namespace refreshlab::ui
