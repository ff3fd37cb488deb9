#pragma once

#include "ui/figure/figure_file.h"

#include <filesystem>
#include <string>

namespace refreshlab::app {

/// Whether `figure` finds tables there and no trace: a folder, or a sweep's file.
[[nodiscard]] bool holds_tables(const std::string& input);

/// What `figure` draws of tables.
struct TableFigures {
    std::string input;      ///< a folder that study --out wrote, or a sweep's file
    std::string name;       ///< of the figure; empty: the first
    std::string out;        ///< its file; with a format the folder of all figures
    std::string format;     ///< svg, pdf or png: every figure; empty: one
    std::string style_file; ///< an input that no output may overwrite
};

/// Throws Error{bad_input}: no figures there, no figure of that name (with the names), what cannot be read or written.
void draw_table_figures(const TableFigures& figures, const ui::FigureStyle& style, const ui::FigureSize& size,
                        const std::filesystem::path& assets);

} // namespace refreshlab::app
