#include "ui/state/settings.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace refreshlab::ui {

namespace {

std::filesystem::path file_of(const std::filesystem::path& folder) {
    return folder / "settings.json";
}

template <class T>
void read(const nlohmann::json& json, const char* key, T& target) {
    const auto found = json.find(key);
    if (found != json.end()) target = found->get<T>();
}

/// A value by its name; one that this version does not know leaves the default.
template <class T, size_t n>
void read_name(const nlohmann::json& json, const char* key, T& target, const std::array<T, n>& values) {
    std::string name;
    read(json, key, name);
    for (const T value : values)
        if (to_string(value) == name) target = value;
}

AttentionView attention_of(const nlohmann::json& json) {
    AttentionView view;
    read_name(json, "of", view.of,
              std::array{AttentionOf::student, AttentionOf::teacher, AttentionOf::difference});
    read_name(json, "range", view.range,
              std::array{AttentionRange::unit, AttentionRange::shared, AttentionRange::per_head});
    read_name(json, "order", view.order,
              std::array{HeadOrder::place, HeadOrder::focused, HeadOrder::spread, HeadOrder::off_sink,
                         HeadOrder::differing});
    read(json, "log", view.log);
    read(json, "without_first", view.without_first);
    read(json, "map", view.map);
    read(json, "queries", view.rows);
    read(json, "best", view.best);
    read(json, "read_missing", view.read_missing);
    read(json, "hidden_layers", view.hidden_layers);
    read(json, "hidden_heads", view.hidden_heads);
    return sane(std::move(view));
}

nlohmann::json json_of(const AttentionView& view) {
    return {{"of", to_string(view.of)},
            {"range", to_string(view.range)},
            {"order", to_string(view.order)},
            {"log", view.log},
            {"without_first", view.without_first},
            {"map", view.map},
            {"queries", view.rows},
            {"best", view.best},
            {"read_missing", view.read_missing},
            {"hidden_layers", view.hidden_layers},
            {"hidden_heads", view.hidden_heads}};
}

CacheView cache_of(const nlohmann::json& json) {
    CacheView view;
    if (json.contains("map")) {
        view.map = CacheMap::entries;
        read_name(json, "map", *view.map, std::array{CacheMap::entries, CacheMap::drift});
    }
    if (const auto layer = json.find("layer"); layer != json.end()) view.rows.layer = layer->get<int64_t>();
    read_name(json, "quantity", view.quantity,
              std::array{DriftQuantity::mean, DriftQuantity::keys, DriftQuantity::values,
                         DriftQuantity::keys_max, DriftQuantity::values_max});
    read(json, "log", view.log);
    return view;
}

nlohmann::json json_of(const CacheView& view) {
    nlohmann::json json = {{"quantity", to_string(view.quantity)}, {"log", view.log}};
    if (view.map) json["map"] = to_string(*view.map);
    if (view.rows.layer) json["layer"] = *view.rows.layer;
    return json;
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
        read(json, "y_axes", settings.y_axes);
        read(json, "layers", settings.layers);
        read(json, "right_axes", settings.right_axes);
        read(json, "folders", settings.folders);
        if (const auto found = json.find("text"); found != json.end()) {
            read(*found, "coloured_by", settings.text.coloured_by);
            read(*found, "origins", settings.text.origins);
        }
        if (const auto found = json.find("attention"); found != json.end())
            settings.attention = attention_of(*found);
        if (const auto found = json.find("cache"); found != json.end()) settings.cache = cache_of(*found);
        if (const auto found = json.find("distribution"); found != json.end()) {
            read(*found, "signal", settings.distribution.signal);
            read(*found, "other", settings.distribution.other);
            read(*found, "in_sight", settings.distribution.in_sight);
            read(*found, "log", settings.distribution.log);
        }
        read(json, "landscape_value", settings.landscape.value);
        read(json, "landscape_ranges", settings.landscape.ranges);
        read(json, "landscape_hidden", settings.landscape.hidden);
        std::vector<std::string> events_hidden;
        read(json, "events_hidden", events_hidden);
        settings.events = without_lanes(events_hidden);
        read(json, "recent_pairs", settings.recent_pairs);
        if (settings.recent_pairs.size() > kept_pairs) settings.recent_pairs.resize(kept_pairs);
        if (const auto found = json.find("signals"); found != json.end())
            settings.signals = found->get<std::vector<std::string>>();
        if (!std::isfinite(settings.user_scale)) settings.user_scale = 1.0F;
        settings.user_scale = std::clamp(settings.user_scale, min_user_scale, max_user_scale);
        if (!(settings.pace > 0) || settings.pace > max_pace) settings.pace = 0;
        if (settings.pace > 0) settings.pace = std::max(settings.pace, min_pace);
        settings.steps_at_once = std::clamp(settings.steps_at_once, 1, 100000);
        return settings;
    } catch (const Error& e) {
        problem = e.what();
    } catch (const nlohmann::json::exception&) {
        problem = Error("reading settings", file_of(folder).string(),
                        "a value has another type than expected", "the defaults are used")
                      .what();
    }
    return {};
}

void store_settings(const std::filesystem::path& folder, const Settings& settings) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    nlohmann::json json = {
        {"theme", settings.theme},
        {"layout", settings.layout},
        {"user_scale", settings.user_scale},
        {"layout_locked", settings.layout_locked},
        {"hints_seen", settings.hints_seen},
        {"steps_at_once", settings.steps_at_once},
        {"pace", settings.pace},
        {"y_axes", settings.y_axes},
        {"layers", settings.layers},
        {"right_axes", settings.right_axes},
        {"folders", settings.folders},
        {"text", {{"coloured_by", settings.text.coloured_by}, {"origins", settings.text.origins}}},
        {"attention", json_of(settings.attention)},
        {"cache", json_of(settings.cache)},
        {"distribution",
         {{"signal", settings.distribution.signal},
          {"other", settings.distribution.other},
          {"in_sight", settings.distribution.in_sight},
          {"log", settings.distribution.log}}},
        {"landscape_value", settings.landscape.value},
        {"landscape_ranges", settings.landscape.ranges},
        {"landscape_hidden", settings.landscape.hidden},
        {"events_hidden", hidden_lanes(settings.events)},
        {"recent_pairs", settings.recent_pairs}};
    if (settings.signals) json["signals"] = *settings.signals;
    write_file(file_of(folder), json_text(json, 2) + "\n");
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
