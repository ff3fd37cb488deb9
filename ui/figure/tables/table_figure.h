#pragma once

#include "engine/record/tables/table_plot.h"
#include "ui/figure/figure.h"

#include <memory>
#include <string>

namespace refreshlab::ui {

/// The figure that a table makes. Facets share their axes, so that one can be read against another.
/// \param what  the table's file, for messages
/// Throws Error{bad_input} as table_marks().
[[nodiscard]] std::unique_ptr<Figure> make_table_figure(const TablePlot& plot, const DataTable& table,
                                                        const std::string& what);

} // namespace refreshlab::ui
