#include "ui/figure/paint/map_parts.h"

#include <fmt/format.h>

#include <algorithm>

namespace refreshlab::ui {

double row_names_width(const FigurePen& pen, std::span<const std::string> names) {
    double width = 0;
    for (const std::string& name : names)
        width = std::max(width, pen.canvas.width_of(name, pen.small()));
    return width + 3;
}

void draw_row_names(const FigurePen& pen, const FigureRect& map, std::span<const std::string> names) {
    const double row = map.height / static_cast<double>(std::max<size_t>(1, names.size()));
    double last = -1e9;
    for (size_t i = 0; i < names.size(); ++i) {
        const double y = map.y + (static_cast<double>(i) + 0.5) * row;
        if (y < last + pen.style.small_pt) continue;
        pen.canvas.text({map.x - 3, y + pen.style.small_pt * 0.35}, names[i],
                        pen.small(TextStyle::Align::right));
        last = y;
    }
}

std::vector<std::string> layer_names(int64_t layers) {
    std::vector<std::string> names;
    for (int64_t layer = 0; layer < layers; ++layer)
        names.push_back(fmt::format("L{}", layer));
    return names;
}

} // namespace refreshlab::ui
