#pragma once

#include "ui/figure/pen.h"
#include "ui/scene/landscape/cell_pyramid.h"
#include "ui/scene/landscape/landscape_model.h"
#include "ui/scene/landscape/landscape_view.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

// A landscape as a picture, and the frontier of loss against refreshes: in the panel and in figures.

/// A part of the picture in a box. Cells are whole numbers from the upper left; column 0 is step 1, rows grow downwards.
struct CellPlace {
    FigureRect box;
    double left = 0, top = 0, extent = 1; ///< first column and row in sight, and how many

    [[nodiscard]] double x(double column) const { return box.x + (column - left) / extent * box.width; }
    [[nodiscard]] double y(double row) const { return box.y + (row - top) / extent * box.height; }
    [[nodiscard]] FigurePoint at(double row, double column) const { return {x(column), y(row)}; }
};

/// Ground, cells, what was not computed, the edge of the triangle. \param cells  those of `image`, coloured
void paint_cells(const FigurePen& pen, const CellPlace& place, const Landscape& landscape,
                 const CellImage& image, const FigureImage& cells);
/// Staircases that the view shows, in one order: the policy's, which a person changes, on top. Of a policy that verifies marks show where its
/// drafts are expected to end.
void paint_stairs(const FigurePen& pen, const CellPlace& place, const AllStairs& stairs,
                  const LandscapeView& view);
/// Frame, ticks and labels. \param block  cells a side that a colour is the mean of
void paint_cell_axes(const FigurePen& pen, const CellPlace& place, int64_t block);
/// Room that the rows' axis takes left of the box; below it is x_axis_height().
[[nodiscard]] double cell_axis_width(const FigurePen& pen);

/// What a frontier is drawn from. Whatever is not known yet is null.
struct FrontierPicture {
    double teacher_loss = 0; ///< teacher_value() under the objective of all others
    std::span<const FrontierCurve> curves;
    const BestAnswer* best = nullptr;
    const AllStairs* stairs = nullptr;
};
/// Curves, blind placement, the best, and the staircases as points; ground and axes are the caller's.
void paint_frontier(const FigurePen& pen, const PlotArea& area, const FrontierPicture& picture);
/// \param table  with the run's own signals
[[nodiscard]] std::vector<LegendEntry> frontier_legend(const Theme& theme, const FrontierPicture& picture,
                                                       std::span<const Signal> table);

/// "run", "policy", "blind", "best": in names of parts.
[[nodiscard]] std::string_view id_of(StairsOf of);
/// In this order one lies over the other.
[[nodiscard]] std::span<const StairsOf> stairs_in_order();

} // namespace refreshlab::ui
