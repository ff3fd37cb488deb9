#include "ui/figure/kinds/map_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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
        if (y < last + pen.style.small_pt * 1.1) continue;
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

void draw_absent(const FigurePen& pen, const FigureRect& place) {
    pen.canvas.rectangle(place, pen.style.theme.absent_a);
    pen.canvas.push_clip(place);
    constexpr double distance = 4;
    std::vector<FigurePoint> lines;
    for (double x = place.x - place.height; x < place.right(); x += distance) {
        lines.push_back({x, place.bottom()});
        lines.push_back({x + place.height, place.y});
        lines.push_back({NAN, NAN});
    }
    pen.canvas.polyline(lines, {pen.style.theme.absent_b, 0.5});
    pen.canvas.pop_clip();
}

} // namespace refreshlab::ui
