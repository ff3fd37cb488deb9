#pragma once

#include "engine/record/tables/table_plot.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// A value of a table with its interval, as numbers; NaN where the table has none.
struct TableMark {
    double x = 0; ///< of curves and points
    double value = 0, low = 0, high = 0;
    size_t row = 0; ///< of the table
};

/// One of the series in one column.
struct TableSeries {
    size_t series = 0;            ///< index in TableMarks::series
    size_t value = 0;             ///< index in the part's values
    std::vector<TableMark> marks; ///< in the order of the rows; of curves by rising x
};

/// What a plot draws of its table.
struct TableMarks {
    struct Facet {
        std::string words;          ///< "every 16, stories"; empty where there is one for all
        std::vector<size_t> series; ///< those that it has, in the order of the rows
        std::vector<std::vector<TableSeries>> parts; ///< by part of the plot; only what has a mark
    };
    std::vector<std::string> series; ///< their words, in the order of the rows
    std::vector<Facet> facets;
    DataTable table; ///< what is drawn: facets, series, x, the value's column, value, low, high
};

/// The marks of a facet's part to which no other is better, or as good, in both x and value; by rising x.
[[nodiscard]] std::vector<TableMark> frontier_marks(const std::vector<TableSeries>& part,
                                                    TablePlot::Frontier frontier);

/// Throws Error{bad_input}: columns that the table lacks, a cell that is no number, no rows with a value.
[[nodiscard]] TableMarks table_marks(const TablePlot& plot, const DataTable& table, const std::string& what);

} // namespace refreshlab::ui
