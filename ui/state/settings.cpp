#include "ui/state/settings.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "ui/state/json_value.h"
#include "ui/state/user_file.h"
#include "ui/state/view_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

namespace {

std::filesystem::path file_of(const std::filesystem::path& folder) {
    return folder / "settings.json";
}

constexpr float scales[] = {0.75F, 0.9F, 1.0F, 1.1F, 1.25F, 1.5F, 1.75F, 2.0F, 2.5F, 3.0F};

} // namespace

Settings load_settings(const std::filesystem::path& folder, std::string& problem) {
    std::error_code error;
    if (folder.empty() || !std::filesystem::exists(file_of(folder), error)) return {};
    try {
        const nlohmann::json json = read_json_file(file_of(folder), 1 << 20);
        Settings settings;
        read(json, "theme", settings.theme);
        read(json, "layout", settings.layout);
        read(json, "user_scale", settings.user_scale);
        read(json, "layout_locked", settings.layout_locked);
        read(json, "hints_seen", settings.hints_seen);
        read(json, "steps_at_once", settings.steps_at_once);
        read(json, "pace", settings.pace);
        read(json, "autosave_megabytes", settings.autosave_megabytes);
        read(json, "tour", settings.tour);
        read(json, "folders", settings.folders);
        read(json, "keys", settings.keys);
        if (const auto colours = json.find("colours"); colours != json.end())
            for (const auto& [theme, chosen] : colours->items())
                settings.colours[theme] =
                    chosen_colours_from_json(chosen, file_of(folder).string() + ": colours." + theme);
        settings.views = views_from_json(json);
        if (const auto more = json.find("more_panels"); more != json.end())
            for (const auto& [title, view] : more->items())
                settings.more_panels[title] = views_from_json(view);
        read(json, "recent_pairs", settings.recent_pairs);
        if (settings.recent_pairs.size() > kept_pairs) settings.recent_pairs.resize(kept_pairs);
        if (!std::isfinite(settings.user_scale)) settings.user_scale = 1.0F;
        settings.user_scale = std::clamp(settings.user_scale, min_user_scale, max_user_scale);
        if (!(settings.pace > 0) || settings.pace > max_pace) settings.pace = 0;
        if (settings.pace > 0) settings.pace = std::max(settings.pace, min_pace);
        settings.autosave_megabytes = std::clamp(settings.autosave_megabytes, 0, most_autosave_megabytes);
        settings.steps_at_once = std::clamp(settings.steps_at_once, 1, most_steps_at_once);
        return settings;
    } catch (const Error& e) {
        problem = e.what();
    } catch (const nlohmann::json::exception&) {
        problem =
            Error("reading settings", file_of(folder).string(), "a value has another type than expected")
                .what();
    }
    // The next settings take its place: what a person has written in it is not lost.
    const std::filesystem::path bad = file_of(folder).string() + ".bad";
    std::filesystem::rename(file_of(folder), bad, error);
    problem += "; the defaults are used";
    if (!error) problem += ", and the file is kept as " + bad.filename().string();
    return {};
}

void store_settings(const std::filesystem::path& folder, const Settings& settings) {
    nlohmann::json json = {{"theme", settings.theme},
                           {"layout", settings.layout},
                           {"user_scale", settings.user_scale},
                           {"layout_locked", settings.layout_locked},
                           {"hints_seen", settings.hints_seen},
                           {"steps_at_once", settings.steps_at_once},
                           {"pace", settings.pace},
                           {"autosave_megabytes", settings.autosave_megabytes},
                           {"tour", settings.tour},
                           {"folders", settings.folders},
                           {"keys", settings.keys},
                           {"recent_pairs", settings.recent_pairs}};
    for (const auto& [theme, chosen] : settings.colours)
        if (!chosen.empty()) json["colours"][theme] = to_json(chosen);
    add_views(json, settings.views);
    for (const auto& [title, views] : settings.more_panels)
        add_views(json["more_panels"][title], views);
    write_user_file(file_of(folder), json_text(json, 2) + "\n");
}

void remember_pair(Settings& settings, const std::string& teacher, const std::string& student) {
    const std::pair pair(teacher, student);
    std::erase(settings.recent_pairs, pair);
    settings.recent_pairs.insert(settings.recent_pairs.begin(), pair);
    if (settings.recent_pairs.size() > kept_pairs) settings.recent_pairs.resize(kept_pairs);
}

double next_pace(double pace, bool faster) {
    if (faster) {
        if (pace <= 0 || pace >= max_pace) return 0;
        return std::min(2 * pace, max_pace);
    }
    return pace <= 0 ? max_pace : std::max(pace / 2, min_pace);
}

std::string pace_text(double pace) {
    return pace > 0 ? fmt::format("{:.3g} a second", pace) : "max";
}

float next_scale(float scale, bool up) {
    constexpr float same = 1e-3F;
    if (up) {
        for (const float s : scales)
            if (s > scale + same) return s;
        return max_user_scale;
    }
    for (auto it = std::rbegin(scales); it != std::rend(scales); ++it)
        if (*it < scale - same) return *it;
    return min_user_scale;
}

} // namespace refreshlab::ui
