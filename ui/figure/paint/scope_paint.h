#pragma once

#include "engine/refresh/scope.h"
#include "ui/figure/pen.h"
#include "ui/scene/landscape/scope_grid.h"

namespace refreshlab::ui {

// Where in the cache refreshes pay: the map of layers and KV heads, and the greedy order's curve; in the panel and in figures.

/// Room left of the map (layers) and above it (names of columns).
[[nodiscard]] double scope_map_left(const FigurePen& pen);
[[nodiscard]] double scope_map_top(const FigurePen& pen);
/// From none of the gain to the largest share.
[[nodiscard]] ColourScale scope_colours(const Theme& theme, const ScopeGrid& grid);
/// The bar of those colours with its words. \return its height
double paint_scope_bar(const FigurePen& pen, const FigureRect& place, const ScopeGrid& grid,
                       ScopeMeasure measure);
/// Cells with the names of rows and columns around them. \param framed  its KV heads are framed, unless it is all of them
void paint_scope_map(const FigurePen& pen, const FigureRect& box, const ScopeGrid& grid,
                     const RefreshScope& framed);

/// The greedy order as a curve: share of the gain over the bytes of a refresh.
/// The plot in a place, with room for its axes. \param grid  with a greedy order (asserted)
[[nodiscard]] PlotArea scope_curve_area(const FigurePen& pen, const FigureRect& place, const ScopeGrid& grid);
/// With its axes. The smallest scopes are marked. \param framed  where it is one of the curve, that point is marked too
void paint_scope_curve(const FigurePen& pen, const PlotArea& area, const ScopeGrid& grid,
                       const RefreshScope& framed);
/// Bytes on the curve's x axis are in this unit.
struct ByteUnit {
    double bytes = 1;
    const char* name = "B";
};
[[nodiscard]] ByteUnit scope_curve_unit(const ScopeGrid& grid);

} // namespace refreshlab::ui
