#include "ui/figure/paint/scope_paint.h"

#include "engine/base/check.h"
#include "ui/scene/maps/colour_maps.h"
#include "ui/scene/theme/stairs_colours.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

namespace {

class ScopePlaces {
public:
    ScopePlaces(const FigureRect& box, const ScopeGrid& grid)
        : m_box(box)
        , m_width(box.width / static_cast<double>(grid.columns.size()))
        , m_height(box.height / static_cast<double>(grid.layers)) {}
    [[nodiscard]] FigureRect cell(int64_t layer, size_t column) const {
        return {m_box.x + static_cast<double>(column) * m_width,
                m_box.y + static_cast<double>(layer) * m_height, m_width, m_height};
    }
    [[nodiscard]] double width() const { return m_width; }
    [[nodiscard]] double height() const { return m_height; }

private:
    FigureRect m_box;
    double m_width, m_height;
};

/// What several columns are of, in the middle over them.
void paint_group_name(const FigurePen& pen, const FigureRect& box, const ScopePlaces& places, size_t first,
                      size_t count, std::string_view words) {
    const double width = static_cast<double>(count) * places.width();
    pen.canvas.text({places.cell(0, first).x + width / 2, box.y - 1.6 * pen.style.small_pt},
                    pen.fitted(words, pen.small(), width), pen.small(TextStyle::Align::centre));
}

void paint_names(const FigurePen& pen, const FigureRect& box, const ScopeGrid& grid,
                 const ScopePlaces& places) {
    for (size_t column = 0; column < grid.columns.size(); ++column)
        pen.canvas.text({places.cell(0, column).x + places.width() / 2, box.y - 0.4 * pen.style.small_pt},
                        pen.fitted(grid.columns[column], pen.small(), places.width()),
                        pen.small(TextStyle::Align::centre));
    paint_group_name(pen, box, places, ScopeGrid::first_head, grid.kv_heads, "KV head");
    if (grid.blocks > 0) paint_group_name(pen, box, places, grid.first_block(), grid.blocks, "positions");
    const auto every =
        std::max<int64_t>(static_cast<int64_t>(std::ceil(1.15 * pen.style.small_pt / places.height())), 1);
    for (int64_t layer = 0; layer < grid.layers; layer += every)
        pen.canvas.text({box.x - 0.5 * pen.style.small_pt,
                         places.cell(layer, 0).y + places.height() / 2 + 0.35 * pen.style.small_pt},
                        fmt::format("{}", layer), pen.small(TextStyle::Align::right));
    TextStyle title = pen.text(TextStyle::Align::centre);
    title.upwards = true;
    pen.canvas.text({box.x - scope_map_left(pen) + pen.style.text_pt, box.y + box.height / 2}, "layer",
                    title);
}

} // namespace

double scope_map_left(const FigurePen& pen) {
    return 1.3 * pen.style.text_pt + 2.4 * pen.style.small_pt;
}

double scope_map_top(const FigurePen& pen) {
    return 2.7 * pen.style.small_pt;
}

ColourScale scope_colours(const Theme& theme, const ScopeGrid& grid) {
    return {colour_map(theme.map_amounts), 0, grid.most, false};
}

double paint_scope_bar(const FigurePen& pen, const FigureRect& place, const ScopeGrid& grid,
                       ScopeMeasure measure) {
    const bool below = std::ranges::any_of(
        grid.cells, [](const ScopeCell& cell) { return cell.share && cell.share->share < 0; });
    return draw_colour_bar(pen, place, scope_colours(pen.style.theme, grid),
                           fmt::format("share of the gain, {}", words_of(measure)), {.low = below});
}

void paint_scope_map(const FigurePen& pen, const FigureRect& box, const ScopeGrid& grid,
                     const RefreshScope& framed) {
    const Theme& theme = pen.style.theme;
    const ScopePlaces places(box, grid);
    const ColourScale scale = scope_colours(theme, grid);
    pen.canvas.rectangle(box, theme.plot_background);
    for (int64_t layer = 0; layer < grid.layers; ++layer)
        for (size_t column = 0; column < grid.columns.size(); ++column)
            if (const ScopeCell& cell = grid.at(layer, column); cell.share)
                pen.canvas.rectangle(places.cell(layer, column), scale(cell.share->share));
    for (int64_t layer = 0; !framed.whole_entries() && layer < grid.layers; ++layer)
        for (size_t head = 0; head < grid.kv_heads; ++head)
            if (framed.has(layer, static_cast<int64_t>(head)))
                pen.canvas.frame(places.cell(layer, ScopeGrid::first_head + head),
                                 {theme.selection, pen.style.line_pt * 1.4});
    pen.canvas.frame(box, {theme.plot_border, pen.style.axis_pt});
    const auto divide = [&](size_t column) {
        const double x = places.cell(0, column).x;
        pen.canvas.line({x, box.y}, {x, box.bottom()}, {theme.plot_border, pen.style.axis_pt * 2});
    };
    divide(ScopeGrid::first_head);
    if (grid.blocks > 0) divide(grid.first_block());
    paint_names(pen, box, grid, places);
}

ByteUnit scope_curve_unit(const ScopeGrid& grid) {
    RL_ASSERT(!grid.greedy.empty());
    const double most = grid.greedy.back().bytes;
    if (most >= 2e6) return {1e6, "MB"};
    if (most >= 2e3) return {1e3, "kB"};
    return {};
}

PlotArea scope_curve_area(const FigurePen& pen, const FigureRect& place, const ScopeGrid& grid) {
    PlotArea area;
    area.x_max = grid.greedy.back().bytes / scope_curve_unit(grid).bytes;
    const auto [least, most] = std::ranges::minmax(grid.greedy, {}, &ScopeChoice::share);
    area.y.min = std::min(0.0, least.share);
    area.y.max = std::max(1.05, most.share * 1.05);
    const double height = place.height - x_axis_height(pen);
    const double left = y_labels_width(pen, area.y, height) + 1.4 * pen.style.text_pt;
    area.rect = {place.x + left, place.y, place.width - left - 0.6 * pen.style.text_pt, height};
    return area;
}

void paint_scope_curve(const FigurePen& pen, const PlotArea& area, const ScopeGrid& grid,
                       const RefreshScope& framed) {
    const Theme& theme = pen.style.theme;
    const ByteUnit unit = scope_curve_unit(grid);
    const auto at = [&](size_t n) { // KV heads
        return n == 0 ? area.at(0, 0)
                      : area.at(grid.greedy[n - 1].bytes / unit.bytes, grid.greedy[n - 1].share);
    };
    draw_plot_ground(pen, area);
    const Colour colour = stairs_colour(theme, StairsOf::best) | alpha_mask;
    pen.canvas.line(area.at(0, 1), area.at(area.x_max, 1), {theme.text_muted, pen.style.axis_pt, 3});
    std::vector<FigurePoint> line;
    for (size_t n = 0; n <= grid.greedy.size(); ++n)
        line.push_back(at(n));
    pen.canvas.polyline(line, {colour, pen.style.line_pt});
    const auto mark = [&](size_t n, Colour of) {
        const double r = 1.8 * pen.style.line_pt;
        const FigurePoint p = at(n);
        pen.canvas.rectangle({p.x - r, p.y - r, 2 * r, 2 * r}, of, {});
    };
    for (const auto& [keep, n] : grid.smallest)
        mark(n, colour);
    for (size_t n = 1; n <= grid.greedy.size(); ++n)
        if (!framed.whole_entries() && grid.greedy[n - 1].scope == framed) mark(n, theme.selection);
    pen.canvas.frame(area.rect, {theme.plot_border, pen.style.axis_pt});
    draw_y_axis(pen, area, "share of the gain", y_labels_width(pen, area.y, area.rect.height));
    draw_value_x_axis(pen, area, fmt::format("{} a refresh, KV heads taken greedily", unit.name));
}

} // namespace refreshlab::ui
