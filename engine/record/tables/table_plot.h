#pragma once

#include "engine/record/tables/data_table.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab {

/// How a table becomes a figure: plain data, which studies write beside their tables and which can be written by hand.
///
/// A value's interval stands in the table behind it: in the next two columns, if their names end in "low" and "high" (a column whose name
/// ends in "sd" may stand before them), or as a half width in the next column, if its name ends in "half_width" or "1.96 SE".
struct TablePlot {
    enum class Kind : uint8_t {
        dots,   ///< a line for each of the series, its values as dots on it from left to right
        curves, ///< values over x, a curve for each of the series
        points, ///< the same without the lines between them
    };
    /// Which values are the better ones, where less of x is better too.
    enum class Frontier : uint8_t { none, low, high };
    /// One axis of values; several stand beside each other.
    struct Part {
        std::string title = {};          ///< of the axis, with the unit
        std::vector<std::string> values; ///< columns; several have a colour or a dash each
        bool log = false;
        std::optional<double> mark = {}; ///< a line at this value: where nothing is gained
        /// Of points: a stair through those to which no other is better, or as good, in both.
        Frontier frontier = Frontier::none;
    };
    std::string name = {};  ///< of the figure, and of its file
    std::string title = {}; ///< one line
    std::string table = {}; ///< a file of the same folder, without ".csv"
    Kind kind = Kind::dots;
    std::vector<std::string> facets = {}; ///< columns: a part of the figure for each of their values
    std::vector<std::string> series = {}; ///< columns that name lines or curves
    std::string x = {}, x_title = {};     ///< curves, points
    bool x_log = false;
    std::map<std::string, std::string> only = {}; ///< column: the value of the rows that count
    std::vector<Part> parts = {};
};

/// Names of --panel, JSON: "dots", "curves", "points".
[[nodiscard]] std::string_view to_string(TablePlot::Kind kind);

/// Tables and the figures that they make.
struct PlottedTables {
    std::map<std::string, DataTable> tables; ///< by TablePlot::table
    std::vector<TablePlot> plots;
};

/// Name of the file beside the tables.
inline constexpr const char* plots_file = "figures.json";

/// {"figures": [{name, title, table, kind, facets, series, x, x_title, x_log, only, parts: [{title, values, log, mark, frontier}]}]}
[[nodiscard]] nlohmann::json plots_to_json(const std::vector<TablePlot>& plots);
/// Throws Error{bad_input} naming `what` and the key: unknown keys, wrong types, a figure without name, table or values, names with
/// a path in them, two figures of one name.
[[nodiscard]] std::vector<TablePlot> plots_from_json(const nlohmann::json& json, const std::string& what);

/// figures.json of a folder and its tables. Throws Error{bad_input}: no such file in it, files that cannot be read, columns that are
/// not in their table (with the nearest).
[[nodiscard]] PlottedTables load_plotted_tables(const std::filesystem::path& folder);
/// Throws Error{bad_input} for a column of the plot that the table does not have. \param what  the table's file
void check_columns(const TablePlot& plot, const DataTable& table, const std::string& what);

/// Columns of an interval's ends, or of its half width in both.
struct IntervalColumns {
    size_t low = 0, high = 0;
    bool half_width = false;
};
[[nodiscard]] std::optional<IntervalColumns> interval_of(const DataTable& table, size_t value);

} // namespace refreshlab
