#include "engine/results/sweep_plots.h"

#include "engine/base/error.h"
#include "engine/base/json_text.h"
#include "engine/control/parameters.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace refreshlab {

namespace {

constexpr Metric qualities[] = {Metric::teacher_ppl, Metric::task_score, Metric::top1_hit};
constexpr size_t fewest_for_curve = 3; ///< values of a parameter

bool measured(const SweepTable& table, Metric metric) {
    return std::ranges::any_of(table.rows,
                               [&](const SweepTableRow& row) { return row.value(metric).mean.has_value(); });
}

/// A metric that is the same everywhere (the first choices of greedy runs) says nothing about rows.
bool tells(const SweepTable& table, Metric metric) {
    std::optional<double> least, most;
    for (const SweepTableRow& row : table.rows) {
        const auto& mean = row.value(metric).mean;
        if (!mean) continue;
        least = std::min(least.value_or(*mean), *mean);
        most = std::max(most.value_or(*mean), *mean);
    }
    return least && (*least < *most || table.rows.size() == 1);
}

TablePlot::Part part_of(Metric metric) {
    const MetricInfo& info = metric_info(metric);
    TablePlot::Part part{.title = std::string(info.label), .values = {std::string(info.name)}};
    if (metric == Metric::overhead_percent) part.mark = 0;
    return part;
}

template <class Metrics>
std::vector<TablePlot::Part> parts_of(const SweepTable& table, const Metrics& metrics) {
    std::vector<TablePlot::Part> parts;
    for (const Metric metric : metrics)
        if (tells(table, metric)) parts.push_back(part_of(metric));
    return parts;
}

/// One row of a curve.
struct Place {
    size_t row;
    std::string value;
};

/// Rows that differ in one parameter alone.
struct Curve {
    std::string name;
    std::vector<Place> places;
};

/// Finds the curves over parameters among the rows of a sweep.
class Curves {
public:
    explicit Curves(const std::vector<std::string>& configs) {
        for (const std::string& text : configs) {
            auto& config = m_configs.emplace_back();
            if (text.empty()) continue;
            config = run_config_from_json(nlohmann::json::parse(text, nullptr, false), "a sweep's run");
            // What differs from run to run of one row.
            config->prompt.clear();
            config->given_text.clear();
            config->task = {};
            config->seed = 0;
        }
    }

    [[nodiscard]] std::vector<Curve> over(const Parameter& parameter) {
        if (parameter.kind != Parameter::Kind::integer && parameter.kind != Parameter::Kind::real) return {};
        std::vector<Place> places;
        std::set<std::string> values;
        for (size_t row = 0; row < m_configs.size(); ++row) {
            const auto value =
                m_configs[row] ? parameter_value(*m_configs[row], parameter.key) : std::nullopt;
            if (!value || *value == "none") continue;
            places.push_back({row, *value});
            values.insert(*value);
        }
        if (values.size() < fewest_for_curve) return {};
        std::map<std::string, Curve> curves; ///< by all that their rows have in common
        for (Place& place : places) {
            Curve& curve = curves[others(place, parameter)];
            curve.name = m_configs[place.row]->policy.name;
            curve.places.push_back(std::move(place));
        }
        std::vector<Curve> found;
        for (auto& [rest, curve] : curves)
            if (curve.places.size() >= fewest_for_curve && m_seen.insert(rows_of(curve)).second)
                found.push_back(std::move(curve));
        return found;
    }

private:
    [[nodiscard]] std::string others(const Place& place, const Parameter& parameter) const {
        RunConfig config = *m_configs[place.row];
        try {
            set_parameter(config, parameter.key, fmt::format("{}", parameter.slider_min));
        } catch (const Error&) {
            return fmt::format("{}", place.row); // it cannot stand alone: a curve of one row is none
        }
        config.policy.name.clear();
        return json_text(to_json(config));
    }
    [[nodiscard]] static std::vector<size_t> rows_of(const Curve& curve) {
        std::vector<size_t> rows;
        for (const Place& place : curve.places)
            rows.push_back(place.row);
        return rows;
    }

    std::vector<std::optional<RunConfig>> m_configs;
    std::set<std::vector<size_t>> m_seen; ///< two parameters may be spellings of one
};

/// The rows of the sweep's table that stand on a curve, each beside its parameter's value.
void add_curves(PlottedTables& result, const SweepTable& table, const std::vector<std::string>& labels,
                const std::vector<std::string>& configs, const std::vector<std::string>& facets) {
    const DataTable& rows = result.tables.at("rows");
    DataTable over{{"parameter", "curve", "at"}, {}};
    over.columns.insert(over.columns.end(), rows.columns.begin(), rows.columns.end());
    Curves curves(configs);
    for (const Parameter& parameter : parameters()) {
        const auto found = curves.over(parameter);
        if (found.empty()) continue;
        for (const Curve& curve : found)
            for (const Place& place : curve.places)
                for (size_t i = 0; i < table.rows.size(); ++i) {
                    if (table.rows[i].label != labels[place.row]) continue;
                    std::vector<std::string> line{std::string(parameter.key), curve.name, place.value};
                    line.insert(line.end(), rows.rows[i].begin(), rows.rows[i].end());
                    over.rows.push_back(std::move(line));
                }
        std::vector<TablePlot::Part> parts = parts_of(table, qualities);
        if (tells(table, Metric::refreshes)) parts.push_back(part_of(Metric::refreshes));
        if (parts.empty()) continue;
        result.plots.push_back({.name = fmt::format("over-{}", parameter.key),
                                .title = fmt::format("{} over {}", table.name, parameter.key),
                                .table = "parameters",
                                .kind = TablePlot::Kind::curves,
                                .facets = facets,
                                .series = {"curve"},
                                .x = "at",
                                .x_title = parameter.unit.empty()
                                               ? std::string(parameter.label)
                                               : fmt::format("{} ({})", parameter.label, parameter.unit),
                                .only = {{"parameter", std::string(parameter.key)}},
                                .parts = std::move(parts)});
    }
    if (!over.rows.empty()) result.tables["parameters"] = std::move(over);
}

} // namespace

PlottedTables sweep_plots(const SweepTable& table, const std::vector<std::string>& labels,
                          const std::vector<std::string>& configs) {
    PlottedTables result;
    result.tables["rows"] = parse_csv(sweep_csv(table, TableColumns::all), "a sweep's table");
    const std::vector<std::string> facets =
        table.groups.size() > 1 ? std::vector<std::string>{"group"} : std::vector<std::string>{};
    const auto add_rows = [&](const char* name, std::vector<TablePlot::Part> parts) {
        if (!parts.empty())
            result.plots.push_back({.name = name,
                                    .title = table.name,
                                    .table = "rows",
                                    .facets = facets,
                                    .series = {"row"},
                                    .parts = std::move(parts)});
    };
    auto parts = parts_of(table, qualities);
    if (tells(table, Metric::refreshes)) parts.push_back(part_of(Metric::refreshes));
    add_rows("rows", std::move(parts));
    add_rows("times",
             parts_of(table, std::vector{Metric::ttft_ms, Metric::decode_tps, Metric::overhead_percent}));
    if (measured(table, Metric::refreshes) && !parts_of(table, qualities).empty())
        result.plots.push_back({.name = "cost",
                                .title = table.name,
                                .table = "rows",
                                .kind = TablePlot::Kind::points,
                                .facets = facets,
                                .series = {"row"},
                                .x = "refreshes",
                                .x_title = std::string(metric_info(Metric::refreshes).label),
                                .parts = parts_of(table, qualities)});
    result.tables["differences"] =
        parse_csv(sweep_differences(table, TableColumns::deterministic), "a sweep's differences");
    for (const Metric metric : qualities) {
        const std::string name(metric_info(metric).name);
        const bool any = std::ranges::any_of(table.rows, [&](const SweepTableRow& row) {
            return row.differences[static_cast<size_t>(metric)].mean.has_value();
        });
        if (any && tells(table, metric))
            result.plots.push_back(
                {.name = "difference-" + name,
                 .title = fmt::format("{}: {}, each run less that of the row it is compared with", table.name,
                                      metric_info(metric).label),
                 .table = "differences",
                 .facets = facets,
                 .series = {"row"},
                 .only = {{"metric", name}},
                 .parts = {{"difference", {"difference"}, false, 0.0}}});
    }
    add_curves(result, table, labels, configs, facets);
    return result;
}

} // namespace refreshlab
