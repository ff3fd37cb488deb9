#include "ui/scene/theme/theme.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "ui/base/colour.h"
#include "ui/scene/maps/colour_maps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace refreshlab::ui {

namespace {

// For signals that the theme file does not list: Okabe and Ito's set, yellow last because it is weak on white.
constexpr std::array<Colour, 7> okabe_ito = {
    rgba(0x56, 0xB4, 0xE9), rgba(0xE6, 0x9F, 0x00), rgba(0x00, 0x9E, 0x73), rgba(0xD5, 0x5E, 0x00),
    rgba(0xCC, 0x79, 0xA7), rgba(0x00, 0x72, 0xB2), rgba(0xF0, 0xE4, 0x42),
};

/// FNV-1a: the same colour in every run and on every machine, unlike std::hash.
uint32_t stable_hash(std::string_view text) {
    uint32_t hash = 2166136261U;
    for (const char c : text)
        hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
    return hash;
}

} // namespace

Colour Theme::signal(std::string_view signal_name) const {
    for (const auto& [listed, colour] : signal_colours)
        if (listed == signal_name) return colour;
    return okabe_ito[stable_hash(signal_name) % okabe_ito.size()];
}

Colour Theme::marker(std::string_view first_signal, char letter) const {
    if (letter == 'H') return manual;
    if (letter == '+') return several;
    return first_signal.empty() ? manual : signal(first_signal);
}

Colour Theme::tag(Colour colour) const {
    constexpr double readable = 4.5;
    const Colour solid = colour | alpha_mask, away = readable_on(tag_text);
    for (int step = 0; step < 20; ++step)
        if (const Colour ground = mix(solid, away, static_cast<float>(step) * 0.05F);
            contrast(ground, tag_text) >= readable)
            return ground;
    return away;
}

Theme load_theme(const std::filesystem::path& assets, const std::string& name) {
    const auto path = assets / "themes" / (name + ".json");
    const nlohmann::json json = read_json_file(path, 1 << 20);
    const auto fail = [&](const std::string& problem) {
        return Error("reading a theme", path.string(), problem);
    };
    if (!json.is_object()) throw fail("the file holds no object");

    Theme theme;
    theme.name = theme.look = name;
    if (!json.contains("dark") || !json["dark"].is_boolean())
        throw fail("\"dark\" (true or false) is missing");
    theme.dark = json["dark"].get<bool>();

    const auto section = [&](const char* key) -> const nlohmann::json& {
        if (!json.contains(key) || !json[key].is_object()) throw fail(fmt::format("\"{}\" is missing", key));
        for (const auto& [field, value] : json[key].items())
            if (!value.is_string()) throw fail(fmt::format("{}.{} is no colour", key, field));
        return json[key];
    };
    const nlohmann::json& own = section("own");
    const std::pair<const char*, Colour*> fields[] = {
        {"accent", &theme.accent},
        {"accent_text", &theme.accent_text},
        {"accent_ink", &theme.accent_ink},
        {"text", &theme.text},
        {"text_muted", &theme.text_muted},
        {"text_error", &theme.text_error},
        {"text_ok", &theme.text_ok},
        {"tag_text", &theme.tag_text},
        {"card", &theme.card},
        {"plot_background", &theme.plot_background},
        {"plot_border", &theme.plot_border},
        {"grid", &theme.grid},
        {"crosshair", &theme.crosshair},
        {"selection", &theme.selection},
        {"origin_prefill", &theme.origin_prefill},
        {"origin_refresh", &theme.origin_refresh},
        {"origin_student", &theme.origin_student},
        {"origin_skipped", &theme.origin_skipped},
        {"absent_a", &theme.absent_a},
        {"absent_b", &theme.absent_b},
        {"manual", &theme.manual},
        {"several", &theme.several},
    };
    for (const auto& [field, target] : fields) {
        if (!own.contains(field)) throw fail(fmt::format("own.{} is missing", field));
        *target =
            parse_colour(own[field].get<std::string>(), fmt::format("{}: own.{}", path.string(), field));
    }
    for (const auto& [field, value] : own.items()) {
        const bool known = std::ranges::any_of(fields, [&](const auto& f) { return field == f.first; });
        if (!known) throw fail(fmt::format("own.{} is no known colour", field));
    }
    const nlohmann::json& maps = section("maps");
    for (const auto& [field, target] :
         {std::pair{"amounts", &theme.map_amounts}, std::pair{"ages", &theme.map_ages},
          std::pair{"signed", &theme.map_signed}}) {
        if (!maps.contains(field)) throw fail(fmt::format("maps.{} is missing", field));
        *target = maps[field].get<std::string>();
        if (std::ranges::find(colour_map_names(), *target) == colour_map_names().end())
            throw fail(fmt::format("maps.{}: \"{}\" is no colour map; there are {}", field, *target,
                                   fmt::join(colour_map_names(), ", ")));
    }
    for (const auto& [field, value] : section("signals").items())
        theme.signal_colours.emplace_back(
            field,
            parse_colour(value.get<std::string>(), fmt::format("{}: signals.{}", path.string(), field)));
    return theme;
}

std::vector<std::string> theme_names(const std::filesystem::path& assets) {
    const std::array<std::string, 3> first = {"dark", "light", "print"};
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(assets / "themes", error))
        if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
    const auto rank = [&](const std::string& name) { return std::ranges::find(first, name) - first.begin(); };
    std::ranges::sort(names, [&](const std::string& a, const std::string& b) {
        return rank(a) != rank(b) ? rank(a) < rank(b) : a < b;
    });
    return names;
}

} // namespace refreshlab::ui
