#include "ui/state/view_settings.h"

#include "ui/state/json_value.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::ui {

namespace {

/// A value by its name; one that this version does not know leaves the default.
/// \return whether there was one
template <class T, size_t n>
bool read_name(const nlohmann::json& json, const char* key, T& target, const std::array<T, n>& values) {
    std::string name;
    read(json, key, name);
    const auto found = std::ranges::find_if(values, [&](const T value) { return to_string(value) == name; });
    if (found != values.end()) target = *found;
    return found != values.end();
}

OwnRanges ranges_of(const nlohmann::json& json) {
    StoredRanges stored;
    read(json, "ranges", stored);
    return own_ranges(stored);
}

AttentionView attention_of(const nlohmann::json& json) {
    AttentionView view;
    read_name(json, "of", view.of, attention_sides);
    read_name(json, "range", view.range, attention_ranges);
    read_name(json, "order", view.order, head_orders);
    read(json, "log", view.log);
    read(json, "without_first", view.without_first);
    read(json, "map", view.map);
    read(json, "queries", view.rows);
    read(json, "best", view.best);
    read(json, "read_missing", view.read_missing);
    read(json, "hidden_layers", view.hidden_layers);
    read(json, "hidden_heads", view.hidden_heads);
    view.ranges = ranges_of(json);
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
            {"hidden_heads", view.hidden_heads},
            {"ranges", stored_ranges(view.ranges)}};
}

TableView table_of(const nlohmann::json& json) {
    TableView view;
    std::string order;
    read(json, "hidden", view.hidden);
    read(json, "order", order);
    view.set_order(order);
    return view;
}

nlohmann::json json_of(const TableView& view) {
    return {{"hidden", view.hidden}, {"order", view.order()}};
}

CacheView cache_of(const nlohmann::json& json) {
    CacheView view;
    CacheMap map{};
    if (read_name(json, "map", map, cache_maps)) view.map = map;
    if (const auto layer = json.find("layer"); layer != json.end()) view.rows.layer = layer->get<int64_t>();
    read_name(json, "quantity", view.quantity, drift_quantities);
    read(json, "log", view.log);
    read(json, "compared", view.compared);
    view.ranges = ranges_of(json);
    return view;
}

nlohmann::json json_of(const CacheView& view) {
    nlohmann::json json = {{"quantity", to_string(view.quantity)},
                           {"log", view.log},
                           {"compared", view.compared},
                           {"ranges", stored_ranges(view.ranges)}};
    if (view.map) json["map"] = to_string(*view.map);
    if (view.rows.layer) json["layer"] = *view.rows.layer;
    return json;
}

/// The keys stand in the file itself, as they always have.
SignalPlots signals_of(const nlohmann::json& settings) {
    SignalPlots plots = first_signal_plots();
    std::map<std::string, std::string> axes, layers, sides;
    read(settings, "y_axes", axes);
    read(settings, "layers", layers);
    read(settings, "right_axes", sides);
    set_axes(plots, axes);
    set_layers(plots, layers);
    set_sides(plots, sides);
    if (const auto shown = settings.find("signals"); shown != settings.end())
        set_shown(plots, shown->get<std::vector<std::string>>());
    read(settings, "signals_rejected", plots.rejected);
    return plots;
}

TextView text_of(const nlohmann::json& json) {
    TextView view;
    read(json, "coloured_by", view.coloured_by);
    read(json, "origins", view.origins);
    read(json, "rejected", view.rejected);
    view.ranges = ranges_of(json);
    return view;
}

DistributionView distribution_of(const nlohmann::json& json) {
    DistributionView view;
    read(json, "signal", view.signal);
    read(json, "other", view.other);
    read(json, "in_sight", view.in_sight);
    read(json, "log", view.log);
    return view;
}

FileTableView file_table_of(const nlohmann::json& json) {
    FileTableView view;
    read(json, "plot", view.plot);
    read(json, "x", view.x);
    read(json, "y", view.y);
    read(json, "log_x", view.log_x);
    read(json, "log_y", view.log_y);
    read(json, "frontier", view.frontier);
    view.table = table_of(json);
    return view;
}

nlohmann::json json_of(const FileTableView& view) {
    nlohmann::json json = json_of(view.table);
    json.update({{"plot", view.plot},
                 {"x", view.x},
                 {"y", view.y},
                 {"log_x", view.log_x},
                 {"log_y", view.log_y},
                 {"frontier", view.frontier}});
    return json;
}

LandscapeView landscape_of(const nlohmann::json& settings) {
    StoredLandscapeView stored;
    read(settings, "landscape_value", stored.value);
    read(settings, "landscape_ranges", stored.ranges);
    read(settings, "landscape_hidden", stored.hidden);
    read(settings, "landscape_objective", stored.objective);
    read(settings, "landscape_scope", stored.scope);
    return landscape_view(stored);
}

} // namespace

Views views_from_json(const nlohmann::json& settings) {
    const auto part = [&](const char* key) {
        const auto found = settings.find(key);
        return found == settings.end() ? nlohmann::json::object() : *found;
    };
    std::vector<std::string> events_hidden;
    read(settings, "events_hidden", events_hidden);
    EventChoice events = without_lanes(events_hidden);
    events.table = table_of(part("events_table"));
    return {.signals = signals_of(settings),
            .text = text_of(part("text")),
            .attention = attention_of(part("attention")),
            .cache = cache_of(part("cache")),
            .distribution = distribution_of(part("distribution")),
            .landscape = landscape_of(settings),
            .events = std::move(events),
            .runs = table_of(part("runs_table")),
            .file_table = file_table_of(part("file_table"))};
}

void add_views(nlohmann::json& settings, const Views& views) {
    settings["signals"] = shown_signals(views.signals);
    settings["signals_rejected"] = views.signals.rejected;
    settings["y_axes"] = changed_axes(views.signals);
    settings["layers"] = changed_layers(views.signals);
    settings["right_axes"] = changed_sides(views.signals);
    settings["text"] = {{"coloured_by", views.text.coloured_by},
                        {"origins", views.text.origins},
                        {"rejected", views.text.rejected},
                        {"ranges", stored_ranges(views.text.ranges)}};
    settings["attention"] = json_of(views.attention);
    settings["cache"] = json_of(views.cache);
    settings["distribution"] = {{"signal", views.distribution.signal},
                                {"other", views.distribution.other},
                                {"in_sight", views.distribution.in_sight},
                                {"log", views.distribution.log}};
    const StoredLandscapeView landscape = stored(views.landscape);
    settings["landscape_value"] = landscape.value;
    settings["landscape_ranges"] = landscape.ranges;
    settings["landscape_hidden"] = landscape.hidden;
    settings["landscape_objective"] = landscape.objective;
    settings["landscape_scope"] = landscape.scope;
    settings["events_hidden"] = hidden_lanes(views.events);
    settings["events_table"] = json_of(views.events.table);
    settings["runs_table"] = json_of(views.runs);
    settings["file_table"] = json_of(views.file_table);
}

} // namespace refreshlab::ui
