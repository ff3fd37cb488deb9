#pragma once

#include "engine/record/tables/table_plot.h"
#include "ui/figure/canvas/cairo_canvas.h"
#include "ui/figure/figure.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace refreshlab::ui {

/// Width and height of a figure, points.
struct FigureSize {
    double width = 84 * points_per_mm;
    std::optional<double> height; ///< nothing: what the figure needs
};
/// "84mm", "84x60mm", "3.3in", "240pt": what --size takes. Throws Error{bad_input} naming it: no such length, outside of 20 mm to
/// 1 m.
[[nodiscard]] FigureSize parse_figure_size(std::string_view text);

enum class FigureFormat : uint8_t { svg, pdf, png };
/// By the file's ending. Throws Error{bad_input}.
[[nodiscard]] FigureFormat figure_format(const std::filesystem::path& path);

/// What every file of a figure says of itself.
struct FigureOrigin {
    std::string title;    ///< one line: panel, models, policy, seed
    std::string metadata; ///< JSON: command line, runs with policy, seed, models, versions
    std::string
        date; ///< ISO 8601 of the first run's start, so that the same figure is the same bytes; empty: none
};
/// \param request  of runs, or of a table that has a plot
[[nodiscard]] FigureOrigin figure_origin(const FigureRequest& request, const std::string& command_line);
/// \param source  where the table is: a folder's or a sweep's file
[[nodiscard]] FigureOrigin figure_origin(const TablePlot& plot, const std::string& source,
                                         const std::string& command_line);

/// The whole file.
/// Throws Error{failure} where the fonts are missing or Cairo fails.
[[nodiscard]] std::string render_figure(const Figure& figure, const FigureStyle& style,
                                        const FigureSize& size, FigureFormat format,
                                        const FigureOrigin& origin, const FigureFonts& fonts);
/// The same as pixels, for a preview. \param pixels_per_point  1 at 72 dpi
[[nodiscard]] CairoCanvas::Image preview_figure(const Figure& figure, const FigureStyle& style,
                                                const FigureSize& size, double pixels_per_point,
                                                const FigureFonts& fonts);

/// Height of a figure at that size, points. Throws Error{bad_input} where the height that was asked for is too low for it.
[[nodiscard]] double figure_height(const Figure& figure, const FigureStyle& style, const FigureSize& size,
                                   const FigureFonts& fonts);

/// Writes the figure and its numbers: `path`, and the same name with .csv.
/// Throws Error{bad_input} where a file cannot be written.
void save_figure(const Figure& figure, const FigureOrigin& origin, const FigureStyle& style,
                 const FigureSize& size, const std::filesystem::path& path,
                 const std::filesystem::path& assets);
/// The same of runs.
void save_figure(const FigureRequest& request, const FigureStyle& style, const FigureSize& size,
                 const std::filesystem::path& path, const std::string& command_line,
                 const std::filesystem::path& assets);

} // namespace refreshlab::ui
