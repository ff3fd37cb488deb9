#pragma once

#include "ui/scene/theme/theme.h"

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <string>

namespace refreshlab::ui {

/// Colours that a person has given in the place of a theme's: of signals by name, and the names of colour maps (empty: the theme's).
struct ChosenColours {
    std::map<std::string, Colour, std::less<>> signals = {}; ///< opaque
    std::string map_amounts = {}, map_ages = {}, map_signed = {};

    [[nodiscard]] bool empty() const { return *this == ChosenColours(); }
    friend bool operator==(const ChosenColours&, const ChosenColours&) = default;
};
/// By the theme's name; "paper" is that of figures.
using ColoursOfThemes = std::map<std::string, ChosenColours, std::less<>>;

/// Puts them in the place of the theme's.
void use_colours(const ChosenColours& chosen, Theme& theme);
/// Those of this theme, if there are any. \param name  the theme's, or "paper"
void use_colours(const ColoursOfThemes& chosen, const std::string& name, Theme& theme);

/// {"signals": {"entropy_bits": "#RRGGBB"}, "maps": {"amounts": "viridis"}}: what is chosen alone.
[[nodiscard]] nlohmann::json to_json(const ChosenColours& chosen);
/// Throws Error{bad_input} naming `what`: no colour, no such map, another type.
[[nodiscard]] ChosenColours chosen_colours_from_json(const nlohmann::json& json, const std::string& what);

} // namespace refreshlab::ui
