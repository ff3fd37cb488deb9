#include "ui/figure/tables/table_figure.h"

#include "ui/figure/tables/marks_figure.h"

#include <utility>

namespace refreshlab::ui {

std::unique_ptr<TableFigure> make_table_figure(const TablePlot& plot, const DataTable& table,
                                               const std::string& what) {
    TableMarks marks = table_marks(plot, table, what);
    return plot.kind == TablePlot::Kind::dots ? make_dots_figure(plot, std::move(marks))
                                              : make_curves_figure(plot, std::move(marks));
}

} // namespace refreshlab::ui
