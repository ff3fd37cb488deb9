#pragma once

#include "ui/figure/pen.h"
#include "ui/figure/tables/table_marks.h"

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// An axis of the values of one part, over all facets: from 0 where that costs little room.
[[nodiscard]] ValueAxis axis_of_values(const TableMarks& marks, size_t part, bool log,
                                       std::optional<double> mark);
/// An axis of x over all facets and parts, with a margin at both ends.
[[nodiscard]] ValueAxis axis_of_x(const TableMarks& marks, bool log);

/// Numbers below a plot whose x_min .. x_max are ValueAxis::forward() of the axis' ends.
/// \param at  values to label; empty: round ones
void draw_scaled_x_axis(const FigurePen& pen, const PlotArea& area, const ValueAxis& axis,
                        std::string_view title, bool labels = true, std::span<const double> at = {});
/// The values of x, if they are so few that each can have a label; else none.
[[nodiscard]] std::vector<double> few_x_values(const TableMarks& marks);
/// A filled circle.
void draw_dot(const FigurePen& pen, FigurePoint at, double radius, Colour colour);

} // namespace refreshlab::ui
