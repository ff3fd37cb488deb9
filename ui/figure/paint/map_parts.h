#pragma once

#include "ui/figure/pen.h"
#include "ui/scene/maps/layer_strip.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

// What maps of layers, queries and keys share.

/// Row names left of a map, as many as keep apart. \param names  from top to bottom
void draw_row_names(const FigurePen& pen, const FigureRect& map, std::span<const std::string> names);
[[nodiscard]] double row_names_width(const FigurePen& pen, std::span<const std::string> names);
/// "L0", "L1", ...
[[nodiscard]] std::vector<std::string> layer_names(int64_t layers);

/// Cells of a strip of layers, [layers][columns]; not measured is transparent.
[[nodiscard]] std::vector<uint32_t> strip_cells(const LayerStrip& strip, const ColourScale& scale);
/// Every layer a row, every step a cell on the steps of the plot; hatched where nothing was measured.
/// \param cells  of strip_cells()  \param steps  of the run: the last column of a growing one is not wider than its steps
void paint_strip(const FigurePen& pen, const PlotArea& area, const LayerStrip& strip,
                 const FigureImage& cells, int64_t steps);

} // namespace refreshlab::ui
