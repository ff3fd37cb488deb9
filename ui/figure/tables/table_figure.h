#pragma once

#include "engine/record/tables/table_plot.h"
#include "ui/figure/figure.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// Where a row's value was drawn.
struct PlacedMark {
    FigurePoint at;
    size_t row = 0;
};
/// A figure of a table that also knows where its marks are.
class TableFigure : public Figure {
public:
    /// As draw() places them; values that have no place on their axis are left out.
    [[nodiscard]] virtual std::vector<PlacedMark> places(const FigurePen& pen,
                                                         const FigureRect& place) const = 0;
};

/// The figure that a table makes. Facets share their axes, so that one can be read against another.
/// \param what  the table's file, for messages
/// Throws Error{bad_input} as table_marks().
[[nodiscard]] std::unique_ptr<TableFigure> make_table_figure(const TablePlot& plot, const DataTable& table,
                                                             const std::string& what);

} // namespace refreshlab::ui
