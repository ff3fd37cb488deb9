#include "ui/figure/style.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/record/runs/run_label.h"
#include "engine/refresh/json_fields.h"
#include "engine/text/utf8.h"
#include "ui/scene/maps/colour_maps.h"
#include "ui/scene/theme/run_colours.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace refreshlab::ui {

namespace {

void read_maps(JsonFields& fields, const std::string& what, Theme& theme) {
    const nlohmann::json* maps = fields.find("maps");
    if (maps == nullptr) return;
    JsonFields names(*maps, what, "maps");
    const auto known = colour_map_names();
    const std::vector<std::string_view> choices(known.begin(), known.end());
    for (const auto& [key, map] :
         {std::pair{"amounts", &theme.map_amounts}, std::pair{"ages", &theme.map_ages},
          std::pair{"signed", &theme.map_signed}})
        if (const auto choice = names.choice(key, choices)) *map = choices[*choice];
    names.finish();
}

Colour colour_of(const JsonFields& fields, const nlohmann::json& json, const std::string& what,
                 const std::string& key) {
    if (!json.is_string()) fields.fail(key, "must be a colour such as \"#0072B2\"");
    return parse_colour(json.get<std::string>(), what + ": " + key);
}

void read_style(const nlohmann::json& json, const std::string& what, const std::filesystem::path& assets,
                FigureStyle& style) {
    JsonFields fields(json, what);
    std::string theme;
    fields.text("theme", theme);
    if (!theme.empty()) {
        const auto names = theme_names(assets);
        if (std::ranges::find(names, theme) == names.end())
            fields.fail("theme",
                        fmt::format("\"{}\" is none of {}", visible_text(theme, 60), fmt::join(names, ", ")));
        style.theme = load_theme(assets, theme);
    }
    fields.real("text_pt", style.text_pt, 4, 24);
    fields.real("small_pt", style.small_pt, 4, 24);
    fields.real("line_pt", style.line_pt, 0.1, 5);
    fields.real("axis_pt", style.axis_pt, 0.1, 5);
    fields.boolean("letters", style.letters);
    read_maps(fields, what, style.theme);
    if (const nlohmann::json* runs = fields.find("runs")) {
        if (!runs->is_array() || runs->empty()) fields.fail("runs", "must be a list of colours");
        style.runs.clear();
        for (const nlohmann::json& colour : *runs)
            style.runs.push_back(colour_of(fields, colour, what, "runs"));
    }
    if (const nlohmann::json* signals = fields.find("signals")) {
        if (!signals->is_object()) fields.fail("signals", "must be an object of names and colours");
        for (const auto& [name, colour] : signals->items()) {
            std::erase_if(style.theme.signal_colours, [&](const auto& c) { return c.first == name; });
            style.theme.signal_colours.emplace_back(name, colour_of(fields, colour, what, "signals." + name));
        }
    }
    fields.finish();
}

} // namespace

FigureStyle screen_style(const Theme& theme, double em) {
    std::vector<Colour> runs;
    for (uint32_t i = 0; i < run_colours; ++i)
        runs.push_back(run_colour(theme, i));
    return {.theme = theme,
            .text_pt = em,
            .small_pt = em,
            .line_pt = std::max(1.5, em * 0.1),
            .axis_pt = 1,
            .tick_pt = std::round(em * 0.2),
            .spacing = 1.15,
            .on_screen = true,
            .letters = false,
            .runs = std::move(runs)};
}

FigureStyle load_figure_style(const std::filesystem::path& assets, const std::string& name,
                              const std::filesystem::path& own) {
    constexpr int64_t most_bytes = 1 << 20;
    FigureStyle style;
    const auto paper = assets / "figures" / "paper.json";
    read_style(read_json_file(paper, most_bytes), paper.string(), assets, style);
    if (name != "paper") {
        const auto names = theme_names(assets);
        if (std::ranges::find(names, name) == names.end())
            throw Error(
                "reading", "--theme",
                fmt::format("'{}' is none of paper, {}", visible_text(name, 60), fmt::join(names, ", ")));
        style.theme = load_theme(assets, name);
    }
    if (!own.empty()) read_style(read_json_file(own, most_bytes), own.string(), assets, style);
    return style;
}

} // namespace refreshlab::ui
