#pragma once

#include "ui/figure/pen.h"

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

} // namespace refreshlab::ui
