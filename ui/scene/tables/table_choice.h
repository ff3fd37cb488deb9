#pragma once

#include "engine/record/tables/table_plot.h"
#include "ui/scene/tables/file_table_view.h"
#include "ui/scene/tables/table_file.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// Columns with numbers that are no ends of an interval, in their order.
[[nodiscard]] std::vector<size_t> number_columns(const DataTable& table);

/// The columns of a plot, and how it is drawn.
struct TableAxes {
    size_t x = 0, y = 0;
};
/// Those of the view, else the usual ones: of cache policies what they hold (bytes, else entries) and how good it is (KL, else loss), else
/// the first two columns of numbers. Nothing: the table has no two columns of numbers.
[[nodiscard]] std::optional<TableAxes> table_axes(const TableFile& file, const FileTableView& view);
/// More of it is better: accuracies, scores and shares of right answers.
[[nodiscard]] bool more_is_better(std::string_view column);

/// The figure that is drawn: the chosen one of the table's, else one of table_axes(). A figure of cache policies has a colour for each
/// family and a stair through the best. Nothing: there is nothing to draw.
[[nodiscard]] std::optional<TablePlot> shown_plot(const TableFile& file, const FileTableView& view);

/// Rows in the order of the view: by number where both cells are numbers, else by text; what is empty comes last either way.
[[nodiscard]] std::vector<size_t> sorted_rows(const DataTable& table, const TableView& view);

/// What is known of a row: its policy, then each column with its value.
[[nodiscard]] std::string row_words(const TableFile& file, size_t row);

} // namespace refreshlab::ui
