#pragma once

#include "ui/scene/theme/theme.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::ui {

/// The colours of a page on light and on dark ground, as variables of its style sheet. Paper is light whatever the screen is.
class PageColours {
public:
    PageColours(Theme light, Theme dark)
        : m_light(std::move(light))
        , m_dark(std::move(dark)) {}

    /// \param pick  of a theme
    /// \return the variable's name without dashes, "c3"; the same for the same pair
    template <typename Pick>
    [[nodiscard]] std::string of(const Pick& pick) {
        return named(pick(m_light), pick(m_dark));
    }
    /// The style sheet's first rules. "--c3" is "31,143,208", for rgb() and rgba(); "--c3-most" the share of it behind a token of the
    /// highest value, so that the token stays readable. Colours of the themes themselves, "--text" and others, are whole.
    [[nodiscard]] std::string css() const;

private:
    [[nodiscard]] std::string named(Colour light, Colour dark);
    [[nodiscard]] std::string variables(const Theme& theme, bool dark) const;

    Theme m_light, m_dark;
    std::vector<std::pair<Colour, Colour>> m_pairs;
};

} // namespace refreshlab::ui
