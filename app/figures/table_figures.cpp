#if REFRESHLAB_UI
#include "app/figures/table_figures.h"

#include "app/base/output.h"
#include "engine/base/error.h"
#include "engine/results/sweep_plots.h"
#include "engine/results/sweep_store.h"
#include "engine/signals/nearest_name.h"
#include "engine/text/utf8.h"
#include "ui/figure/tables/table_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace refreshlab::app {

namespace {

namespace fs = std::filesystem;

PlottedTables load(const std::string& input) {
    if (!SweepStore::is_sweep(input)) return load_plotted_tables(input);
    const auto store = SweepStore::open_existing(input, true);
    std::vector<std::string> labels;
    for (const SweepPlan::Row& row : store->plan().rows)
        labels.push_back(row.label);
    return sweep_plots(make_sweep_table(store->plan(), store->results()), labels, store->row_configs());
}

void draw(const TableFigures& figures, const PlottedTables& tables, const TablePlot& plot,
          const std::string& out, const ui::FigureStyle& style, const ui::FigureSize& size,
          const fs::path& assets) {
    fs::path numbers = out;
    numbers.replace_extension(".csv");
    check_outputs(std::vector<NamedFile>{{"-o", out}, {"the numbers beside -o", numbers.string()}},
                  std::vector<NamedFile>{{"--style", figures.style_file}, {"the tables", figures.input}});
    const auto figure = ui::make_table_figure(plot, tables.tables.at(plot.table), plot.table);
    ui::save_figure(*figure, ui::figure_origin(plot, figures.input, command_line()), style, size, out,
                    assets);
    say("wrote {} and {}\n", out, numbers.string());
}

} // namespace

bool holds_tables(const std::string& input) {
    std::error_code unreadable;
    return fs::is_directory(input, unreadable) || SweepStore::is_sweep(input);
}

void draw_table_figures(const TableFigures& figures, const ui::FigureStyle& style, const ui::FigureSize& size,
                        const fs::path& assets) {
    const PlottedTables tables = load(figures.input);
    if (tables.plots.empty())
        throw Error("drawing a figure", figures.input, "there is nothing to draw in it yet");
    if (!figures.format.empty()) {
        std::error_code error;
        fs::create_directories(figures.out, error);
        if (error) throw Error("drawing figures", figures.out, error.message());
        fs::path input = fs::path(figures.input).lexically_normal();
        if (!input.has_filename()) input = input.parent_path(); // a slash at the end
        for (const TablePlot& plot : tables.plots) {
            const std::string name =
                fmt::format("{}-{}.{}", input.stem().string(), plot.name, figures.format);
            draw(figures, tables, plot, (fs::path(figures.out) / name).string(), style, size, assets);
        }
        return;
    }
    const auto plot = figures.name.empty() ? tables.plots.begin()
                                           : std::ranges::find(tables.plots, figures.name, &TablePlot::name);
    if (plot == tables.plots.end()) {
        std::vector<std::string_view> known;
        for (const TablePlot& one : tables.plots)
            known.push_back(one.name);
        throw Error("drawing a figure", "--panel",
                    fmt::format("{} has no figure '{}'", figures.input, visible_text(figures.name, 60)),
                    name_hint(figures.name, known, "figures"));
    }
    draw(figures, tables, *plot, figures.out, style, size, assets);
}

} // namespace refreshlab::app
#endif
