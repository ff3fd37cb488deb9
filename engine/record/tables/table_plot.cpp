#include "engine/record/tables/table_plot.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/refresh/json_fields.h"
#include "engine/signals/nearest_name.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <limits>

namespace refreshlab {

namespace {

constexpr std::array<std::string_view, 3> kinds = {"dots", "curves", "points"};
constexpr std::array<std::string_view, 3> frontiers = {"none", "low", "high"};
constexpr size_t largest_table = size_t{1} << 28;

std::vector<std::string> texts(JsonFields& fields, std::string_view key) {
    std::vector<std::string> texts;
    const nlohmann::json* value = fields.find(key);
    if (value == nullptr) return texts;
    if (!value->is_array()) fields.fail(key, "must be a list of names of columns");
    for (const nlohmann::json& one : *value) {
        if (!one.is_string()) fields.fail(key, "must be a list of names of columns");
        texts.push_back(one.get<std::string>());
    }
    return texts;
}

/// Part of a file's name: a folder holds all that its figures need.
void check_file_name(const JsonFields& fields, std::string_view key, const std::string& name) {
    if (name.empty()) fields.fail(key, "is missing");
    if (name.find('/') != std::string::npos || name.starts_with('.'))
        fields.fail(key,
                    fmt::format("'{}' is not the name of a file in this folder", visible_text(name, 60)));
}

TablePlot::Part part_from(const nlohmann::json& json, const std::string& what, const std::string& path) {
    JsonFields fields(json, what, path);
    TablePlot::Part part;
    fields.text("title", part.title);
    part.values = texts(fields, "values");
    if (part.values.empty()) fields.fail("values", "names no column");
    fields.boolean("log", part.log);
    if (const auto* mark = fields.find("mark"); mark != nullptr && !mark->is_null()) {
        constexpr double most = std::numeric_limits<double>::max();
        fields.real("mark", part.mark.emplace(0), -most, most);
    }
    if (const auto frontier = fields.choice("frontier", {frontiers.begin(), frontiers.end()}))
        part.frontier = static_cast<TablePlot::Frontier>(*frontier);
    fields.finish();
    return part;
}

TablePlot plot_from(const nlohmann::json& json, const std::string& what, const std::string& path) {
    JsonFields fields(json, what, path);
    TablePlot plot;
    fields.text("name", plot.name);
    check_file_name(fields, "name", plot.name);
    fields.text("title", plot.title);
    fields.text("table", plot.table);
    check_file_name(fields, "table", plot.table);
    if (const auto kind = fields.choice("kind", {kinds.begin(), kinds.end()}))
        plot.kind = static_cast<TablePlot::Kind>(*kind);
    plot.facets = texts(fields, "facets");
    plot.series = texts(fields, "series");
    fields.text("x", plot.x);
    fields.text("x_title", plot.x_title);
    fields.boolean("x_log", plot.x_log);
    if (plot.kind != TablePlot::Kind::dots && plot.x.empty())
        fields.fail("x", fmt::format("is missing: {} stand over a column", to_string(plot.kind)));
    if (const auto* only = fields.find("only")) {
        if (!only->is_object()) fields.fail("only", "must be an object of columns and values");
        for (const auto& [column, value] : only->items()) {
            if (!value.is_string()) fields.fail("only", "holds a value that is no text");
            plot.only[column] = value.get<std::string>();
        }
    }
    const auto* parts = fields.find("parts");
    if (parts == nullptr || !parts->is_array() || parts->empty())
        fields.fail("parts", "must be a list of one axis or more");
    for (size_t i = 0; i < parts->size(); ++i)
        plot.parts.push_back(part_from((*parts)[i], what, fields.path(fmt::format("parts[{}]", i))));
    fields.finish();
    return plot;
}

} // namespace

std::string_view to_string(TablePlot::Kind kind) {
    return kinds[static_cast<size_t>(kind)];
}

nlohmann::json plots_to_json(const std::vector<TablePlot>& plots) {
    nlohmann::json list = nlohmann::json::array();
    for (const TablePlot& plot : plots) {
        nlohmann::json json{{"name", plot.name},
                            {"title", plot.title},
                            {"table", plot.table},
                            {"kind", to_string(plot.kind)}};
        if (!plot.facets.empty()) json["facets"] = plot.facets;
        if (!plot.series.empty()) json["series"] = plot.series;
        if (!plot.x.empty()) json["x"] = plot.x;
        if (!plot.x_title.empty()) json["x_title"] = plot.x_title;
        if (plot.x_log) json["x_log"] = true;
        if (!plot.only.empty()) json["only"] = plot.only;
        for (const TablePlot::Part& part : plot.parts) {
            nlohmann::json axis{{"title", part.title}, {"values", part.values}};
            if (part.log) axis["log"] = true;
            if (part.mark) axis["mark"] = *part.mark;
            if (part.frontier != TablePlot::Frontier::none)
                axis["frontier"] = frontiers[static_cast<size_t>(part.frontier)];
            json["parts"].push_back(std::move(axis));
        }
        list.push_back(std::move(json));
    }
    return {{"figures", std::move(list)}};
}

std::vector<TablePlot> plots_from_json(const nlohmann::json& json, const std::string& what) {
    JsonFields fields(json, what);
    const auto* list = fields.find("figures");
    if (list == nullptr || !list->is_array()) fields.fail("figures", "must be a list");
    std::vector<TablePlot> plots;
    for (size_t i = 0; i < list->size(); ++i) {
        const std::string path = fmt::format("figures[{}]", i);
        plots.push_back(plot_from((*list)[i], what, path));
        if (std::ranges::count(plots, plots.back().name, &TablePlot::name) > 1)
            fields.fail(path + ".name", fmt::format("'{}' is the name of an earlier figure",
                                                    visible_text(plots.back().name, 60)));
    }
    fields.finish();
    return plots;
}

void check_columns(const TablePlot& plot, const DataTable& table, const std::string& what) {
    const auto check = [&](const std::string& column) {
        if (table.find(column)) return;
        const std::vector<std::string_view> known(table.columns.begin(), table.columns.end());
        throw Error("drawing a figure", what,
                    fmt::format("the table has no column '{}'", visible_text(column, 60)),
                    name_hint(column, known, "columns"));
    };
    for (const auto* names : {&plot.facets, &plot.series})
        for (const std::string& column : *names)
            check(column);
    if (plot.kind != TablePlot::Kind::dots) check(plot.x);
    for (const auto& [column, value] : plot.only)
        check(column);
    for (const TablePlot::Part& part : plot.parts)
        for (const std::string& column : part.values)
            check(column);
}

PlottedTables load_plotted_tables(const std::filesystem::path& folder) {
    const std::filesystem::path file = folder / plots_file;
    std::error_code unreadable;
    if (!std::filesystem::exists(file, unreadable))
        throw Error("drawing a figure", folder.string(), fmt::format("there is no {} in it", plots_file),
                    "refreshlab study ... --out FOLDER writes one");
    PlottedTables result;
    result.plots = plots_from_json(read_json_file(file), file.string());
    for (const TablePlot& plot : result.plots) {
        const std::filesystem::path path = folder / (plot.table + ".csv");
        if (!result.tables.contains(plot.table))
            result.tables[plot.table] = parse_csv(read_file(path, largest_table), path.string());
        check_columns(plot, result.tables[plot.table], path.string());
    }
    return result;
}

std::optional<IntervalColumns> interval_of(const DataTable& table, size_t value) {
    const auto& names = table.columns;
    const size_t low = value + 1 < names.size() && names[value + 1].ends_with("sd") ? value + 2 : value + 1;
    if (low + 1 < names.size() && names[low].ends_with("low") && names[low + 1].ends_with("high"))
        return IntervalColumns{low, low + 1, false};
    if (value + 1 < names.size() &&
        (names[value + 1].ends_with("half_width") || names[value + 1].ends_with("1.96 SE")))
        return IntervalColumns{value + 1, value + 1, true};
    return std::nullopt;
}

} // namespace refreshlab
