// What the panel Table plots.
#include "engine/base/error.h"
#include "ui/figure/kinds/kinds.h"
#include "ui/figure/tables/table_figure.h"
#include "ui/scene/tables/table_choice.h"

namespace refreshlab::ui {

std::unique_ptr<Figure> make_file_table_figure(const FigureRequest& request) {
    if (!request.table) throw Error("drawing a figure", {}, "no table is open");
    const auto plot = shown_plot(*request.table, request.views.file_table);
    if (!plot)
        throw Error("drawing a figure", request.table->path.string(),
                    "the table has no two columns of numbers");
    return make_table_figure(*plot, request.table->table, request.table->path.string());
}

} // namespace refreshlab::ui
