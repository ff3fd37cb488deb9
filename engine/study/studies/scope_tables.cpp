#include "engine/study/studies/scope_tables.h"

#include "engine/results/scope_map_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <string>
#include <utility>

namespace refreshlab {

namespace {

using Kind = ScopePart::Kind;

constexpr double kept_shares[] = {0.5, 0.8, 0.95}; ///< of the gain, that the smallest scopes keep

void add_share(std::vector<StudyCell>& row, const std::optional<GainShare>& share) {
    if (!share) {
        row.insert(row.end(), 3, std::monostate{});
        return;
    }
    row.emplace_back(share->share);
    row.push_back(share->interval ? StudyCell(share->interval->low) : StudyCell());
    row.push_back(share->interval ? StudyCell(share->interval->high) : StudyCell());
}

void add_gain(std::vector<StudyCell>& row, const MeanGain& gain) {
    row.emplace_back(gain.gain);
    row.push_back(gain.interval ? StudyCell(gain.interval->low) : StudyCell());
    row.push_back(gain.interval ? StudyCell(gain.interval->high) : StudyCell());
}

/// "share, share_low, share_high": as the figures find an interval.
void add_columns(std::vector<StudyColumn>& columns, const std::string& name, int decimals = 3) {
    for (const char* which : {"", "_low", "_high"})
        columns.push_back({name + which, decimals});
}

/// A row for each part of a kind: what names it, its bytes, both shares.
StudyTable table_of(const ScopeMap& map, Kind kind, std::string name, std::string title) {
    StudyTable table{.name = std::move(name), .title = std::move(title), .columns = {}, .rows = {}};
    const bool layers = kind != Kind::half;
    if (layers) table.columns.push_back({"layer", 0});
    if (kind == Kind::head) table.columns.push_back({"kv_head", 0});
    if (kind == Kind::block) table.columns.push_back({"block", 0});
    if (kind == Kind::half || kind == Kind::layer_half) table.columns.push_back({"part", 0});
    table.columns.push_back({"bytes", 0});
    add_columns(table.columns, "gain", 4);
    add_columns(table.columns, "share");
    add_columns(table.columns, "missed");
    for (const ScopeMap::Reading& reading : map.readings) {
        if (reading.part.kind != kind) continue;
        std::vector<StudyCell> row;
        if (layers) row.emplace_back(int64_t{reading.part.layer});
        if (kind == Kind::head) row.emplace_back(int64_t{reading.part.kv_head});
        if (kind == Kind::block) row.emplace_back(int64_t{reading.part.block});
        if (kind == Kind::half || kind == Kind::layer_half)
            row.emplace_back(std::string(to_string(reading.part.parts)));
        row.emplace_back(map.bytes_of(reading.part));
        add_gain(row, mean_gain(map, reading.alone));
        add_share(row, gain_share(map, reading.alone));
        add_share(row, lost_share(map, reading.without));
        table.rows.push_back(std::move(row));
    }
    return table;
}

/// Shares over layers, a curve for each of the series.
TablePlot over_layers(const std::string& name, const std::string& title, std::vector<std::string> series) {
    TablePlot plot;
    plot.name = name;
    plot.title = title;
    plot.kind = TablePlot::Kind::curves;
    plot.series = std::move(series);
    plot.x = "layer";
    plot.x_title = "layer";
    plot.parts = {{.title = "share of the gain, alone", .values = {"share"}, .mark = 0.0},
                  {.title = "share missed without", .values = {"missed"}, .mark = 0.0}};
    return plot;
}

StudyTable refreshes_of(const ScopeMap& map) {
    StudyTable table{
        .name = "refreshes",
        .title = "the refreshes, losses in nats a token",
        .columns = {{"step", 0}, {"delta", 0}, {"none", 4}, {"whole", 4}, {"gain", 4, true}, {"teacher", 4}},
        .rows = {}};
    for (const ScopeMap::Refresh& r : map.refreshes)
        table.rows.push_back({r.boundary, r.delta, r.none, r.whole, r.gain(), r.teacher});
    return table;
}

double head_bytes(const ScopeMap& map) {
    return map.mean_delta() * static_cast<double>(map.entry_bytes);
}

StudyTable curve_of(const ScopeMap& map) {
    StudyTable table{.name = "curve",
                     .title = "KV heads in the order in which the greedy choice takes them",
                     .columns = {{"kv_heads", 0}, {"layer", 0}, {"kv_head", 0}, {"bytes", 0}},
                     .rows = {}};
    add_columns(table.columns, "gain", 4);
    add_columns(table.columns, "share");
    for (size_t n = 0; n < map.taken.size(); ++n) {
        const ScopeMap::Taken& one = map.taken[n];
        std::vector<StudyCell> row{static_cast<int64_t>(n + 1), int64_t{one.layer}, int64_t{one.kv_head},
                                   static_cast<double>(n + 1) * head_bytes(map)};
        add_gain(row, mean_gain(map, one.loss));
        add_share(row, gain_share(map, one.loss));
        table.rows.push_back(std::move(row));
    }
    TablePlot plot;
    plot.name = "scope_curve";
    plot.title = "Gain over bytes";
    plot.kind = TablePlot::Kind::curves;
    plot.x = "bytes";
    plot.x_title = "bytes of a refresh";
    plot.parts = {{.title = "share of the gain", .values = {"share"}, .mark = 1.0}};
    table.plots.push_back(std::move(plot));
    return table;
}

/// The smallest scopes, as the flags of a run.
StudyTable scopes_of(const ScopeMap& map) {
    StudyTable table{.name = "scopes",
                     .title = "smallest scopes of the greedy order",
                     .columns = {{"keep", 2}, {"kv_heads", 0}, {"bytes", 0}, {"of_all_bytes", 3}},
                     .rows = {}};
    add_columns(table.columns, "share");
    table.columns.push_back({"flags", 0});
    const double all = head_bytes(map) * static_cast<double>(map.layers * map.kv_heads);
    for (const double keep : kept_shares) {
        const auto n = heads_for(map, keep);
        if (!n) continue;
        const double bytes = static_cast<double>(*n) * head_bytes(map);
        std::vector<StudyCell> row{keep, static_cast<int64_t>(*n), bytes, bytes / all};
        add_share(row, gain_share(map, map.taken[*n - 1].loss));
        row.emplace_back(scope_flags(scope_of_taken(map, *n)));
        table.rows.push_back(std::move(row));
    }
    return table;
}

std::string summary_of(const ScopeMap& map) {
    double none = 0, whole = 0, teacher = 0;
    for (const ScopeMap::Refresh& r : map.refreshes) {
        none += r.none;
        whole += r.whole;
        teacher += r.teacher;
    }
    const auto n = static_cast<double>(map.refreshes.size());
    return fmt::format(
        "{} refreshes of {:.1f} positions in the mean, read {} tokens on: {:.4f} nats a token without the "
        "refresh, "
        "{:.4f} with all of it, {:.4f} by the teacher. gain: nats a token that the part alone gains; share: "
        "of what all of it gains; "
        "missed: the share that is lost without the part.",
        map.refreshes.size(), map.mean_delta(), map.horizon, none / n, whole / n, teacher / n);
}

} // namespace

StudyResult scope_tables(const ScopeMap& map) {
    StudyResult result;
    result.tables.push_back(table_of(map, Kind::half, "halves", "keys against values"));
    result.tables.push_back(table_of(map, Kind::layer, "layers", "layers"));
    if (!map.taken.empty()) result.tables.push_back(scopes_of(map));
    result.figures.push_back(table_of(map, Kind::layer_half, "layer_halves", "keys and values of layers"));
    result.figures.push_back(table_of(map, Kind::head, "heads", "KV heads of layers"));
    result.figures.push_back(table_of(map, Kind::block, "blocks", "positions of delta, the oldest first"));
    result.figures.push_back(refreshes_of(map));
    if (!map.taken.empty()) result.figures.push_back(curve_of(map));
    result.tables[1].plots.push_back(over_layers("scope_layers", "Layers", {}));
    result.figures[0].plots.push_back(
        over_layers("scope_layer_halves", "Keys and values of layers", {"part"}));
    result.figures[1].plots.push_back(over_layers("scope_heads", "KV heads", {"kv_head"}));
    result.figures[2].plots.push_back(over_layers("scope_blocks", "Positions of delta", {"block"}));
    result.notes.push_back(summary_of(map));
    double gain = 0;
    for (const ScopeMap::Refresh& r : map.refreshes)
        gain += r.gain();
    std::vector<double> wholes;
    for (const ScopeMap::Refresh& r : map.refreshes)
        wholes.push_back(r.whole);
    if (const MeanGain all = mean_gain(map, wholes); gain > 0 && all.interval && all.interval->low <= 0) {
        result.notes.push_back(fmt::format("All of it gains {:.4f} nats a token (95 %: {:.4f} to {:.4f}): "
                                           "shares of what may be nothing say little.",
                                           all.gain, all.interval->low, all.interval->high));
    }
    if (!(gain > 0))
        result.notes.emplace_back("These refreshes gain nothing on this text, so there are no shares of it.");
    if (map.refreshes.size() < fewest_for_interval)
        result.notes.push_back(
            fmt::format("No intervals: they take {} refreshes at least.", fewest_for_interval));
    else if (gain > 0 && !gain_share(map, map.readings.at(0).alone)->interval)
        result.notes.emplace_back(
            "No intervals of shares: some draws of these refreshes gain nothing, so the data do "
            "not say what share it is.");
    if (!map.taken.empty())
        result.notes.emplace_back(
            "The greedy order is chosen and judged on the same refreshes: elsewhere its scopes keep less.");
    return result;
}

nlohmann::json to_json(const ScopeMap& map) {
    nlohmann::json json = measured_json(map);
    const auto share = [](const std::optional<GainShare>& s) {
        if (!s) return nlohmann::json();
        nlohmann::json shown{{"share", s->share}, {"low", nullptr}, {"high", nullptr}};
        if (s->interval) {
            shown["low"] = s->interval->low;
            shown["high"] = s->interval->high;
        }
        return shown;
    };
    const auto gained = [](const MeanGain& g) {
        return nlohmann::json{{"gain", g.gain},
                              {"low", g.interval ? nlohmann::json(g.interval->low) : nlohmann::json()},
                              {"high", g.interval ? nlohmann::json(g.interval->high) : nlohmann::json()}};
    };
    for (size_t i = 0; i < map.readings.size(); ++i) {
        const ScopeMap::Reading& reading = map.readings[i];
        nlohmann::json& part = json["parts"][i];
        part["bytes"] = map.bytes_of(reading.part);
        part["gain"] = gained(mean_gain(map, reading.alone));
        part["share"] = share(gain_share(map, reading.alone));
        part["missed"] = share(lost_share(map, reading.without));
    }
    for (size_t n = 0; n < map.taken.size(); ++n) {
        json["taken"][n]["gain"] = gained(mean_gain(map, map.taken[n].loss));
        json["taken"][n]["share"] = share(gain_share(map, map.taken[n].loss));
    }
    json["scopes"] = nlohmann::json::array();
    for (const double keep : kept_shares) {
        const auto n = heads_for(map, keep);
        if (!n) continue;
        const RefreshScope scope = scope_of_taken(map, *n);
        json["scopes"].push_back({{"keep", keep},
                                  {"kv_heads", *n},
                                  {"refresh.layers", to_text(scope.layers)},
                                  {"refresh.kv_heads", to_text(scope.kv_heads)}});
    }
    return json;
}

} // namespace refreshlab
