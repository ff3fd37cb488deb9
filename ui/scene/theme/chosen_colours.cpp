#include "ui/scene/theme/chosen_colours.h"

#include "engine/base/error.h"
#include "ui/scene/maps/colour_maps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace refreshlab::ui {

namespace {

constexpr std::array<std::pair<const char*, std::string ChosenColours::*>, 3> chosen_maps = {
    {{"amounts", &ChosenColours::map_amounts},
     {"ages", &ChosenColours::map_ages},
     {"signed", &ChosenColours::map_signed}}};

std::string checked_map(const nlohmann::json& name, const std::string& what) {
    const auto names = colour_map_names();
    if (!name.is_string() || std::ranges::find(names, name.get<std::string>()) == names.end())
        throw Error("reading colours", what,
                    fmt::format("a colour map is one of {}", fmt::join(names, ", ")));
    return name.get<std::string>();
}

} // namespace

void use_colours(const ChosenColours& chosen, Theme& theme) {
    if (chosen.empty()) return;
    for (const auto& [name, colour] : chosen.signals) {
        std::erase_if(theme.signal_colours, [&](const auto& listed) { return listed.first == name; });
        theme.signal_colours.emplace_back(name, colour | alpha_mask);
    }
    if (!chosen.map_amounts.empty()) theme.map_amounts = chosen.map_amounts;
    if (!chosen.map_ages.empty()) theme.map_ages = chosen.map_ages;
    if (!chosen.map_signed.empty()) theme.map_signed = chosen.map_signed;
    theme.look = theme.name + to_json(chosen).dump();
}

void use_colours(const ColoursOfThemes& chosen, const std::string& name, Theme& theme) {
    if (const auto of = chosen.find(name); of != chosen.end()) use_colours(of->second, theme);
}

nlohmann::json to_json(const ChosenColours& chosen) {
    nlohmann::json json = nlohmann::json::object();
    for (const auto& [name, colour] : chosen.signals)
        json["signals"][name] = colour_text(colour);
    for (const auto& [key, map] : chosen_maps)
        if (!(chosen.*map).empty()) json["maps"][key] = chosen.*map;
    return json;
}

ChosenColours chosen_colours_from_json(const nlohmann::json& json, const std::string& what) {
    ChosenColours chosen;
    const auto object = [&](const nlohmann::json& value) -> const nlohmann::json& {
        if (!value.is_object()) throw Error("reading colours", what, "is no object of names and colours");
        return value;
    };
    object(json);
    if (const auto signals = json.find("signals"); signals != json.end())
        for (const auto& [name, colour] : object(*signals).items()) {
            if (!colour.is_string()) throw Error("reading colours", what, name + " is no colour");
            chosen.signals[name] = parse_colour(colour.get<std::string>(), what) | alpha_mask;
        }
    if (const auto maps = json.find("maps"); maps != json.end()) {
        object(*maps);
        for (const auto& [key, map] : chosen_maps)
            if (const auto name = maps->find(key); name != maps->end())
                chosen.*map = checked_map(*name, what);
    }
    return chosen;
}

} // namespace refreshlab::ui
