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

std::vector<uint32_t> strip_cells(const LayerStrip& strip, const ColourScale& scale) {
    const int64_t columns = strip.columns(), layers = strip.layers();
    std::vector<uint32_t> cells(static_cast<size_t>(columns * layers));
    for (int64_t layer = 0; layer < layers; ++layer)
        for (int64_t c = 0; c < columns; ++c) {
            const float value = strip.at(layer, c);
            cells[static_cast<size_t>(layer * columns + c)] =
                is_absent(value) ? 0U : scale(static_cast<double>(value));
        }
    return cells;
}

void paint_strip(const FigurePen& pen, const PlotArea& area, const LayerStrip& strip,
                 const FigureImage& cells, int64_t steps) {
    // Its columns are whole blocks of steps: the first may begin before the axis does, and the last end behind the run.
    const double first = static_cast<double>(strip.first_step()) - 0.5,
                 end = first + static_cast<double>(strip.columns() * strip.steps_per_column());
    const double left = std::max(area.rect.x, area.x(first)),
                 right = std::min({area.rect.right(), area.x(end), area.x(static_cast<double>(steps) + 0.5)});
    const FigureRect seen{left, area.rect.y, right - left, area.rect.height};
    if (cells.rgba.empty() || seen.width <= 0) return;
    const FigureGroup group(pen.canvas, "strip");
    pen.canvas.push_clip(seen);
    draw_absent(pen, seen);
    pen.canvas.image({area.x(first), area.rect.y, area.x(end) - area.x(first), area.rect.height}, cells);
    pen.canvas.pop_clip();
}

} // namespace refreshlab::ui
