#include "ui/figure/paint/landscape_paint.h"

#include "ui/base/value_format.h"
#include "ui/figure/paint/map_parts.h"
#include "ui/scene/maps/heatmap.h"
#include "ui/scene/theme/stairs_colours.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>

namespace refreshlab::ui {

namespace {

constexpr std::array order{StairsOf::run, StairsOf::blind, StairsOf::best, StairsOf::policy};

Colour opaque_colour(const FigurePen& pen, StairsOf of) {
    return stairs_colour(pen.style.theme, of) | alpha_mask;
}

/// Rows that are not there yet are hatched; below the diagonal is nothing.
void paint_missing_rows(const FigurePen& pen, const CellPlace& place, const Landscape& landscape) {
    const auto rows = landscape.rows();
    if (landscape.complete() || rows.empty()) return;
    const auto cells = static_cast<double>(landscape.num_rows()), last = static_cast<double>(rows.back()) + 1;
    const FigurePoint from = place.at(last, last), to = place.at(cells, cells);
    draw_absent(pen, {from.x, from.y, to.x - from.x, to.y - from.y});
    const FigurePoint below[] = {from, place.at(cells, last), to};
    pen.canvas.polygon(below, pen.style.theme.plot_background);
}

/// Cells of no difference look like the ground below the triangle. A line of steps where cells are seen one by one.
void paint_edge(const FigurePen& pen, const CellPlace& place, int64_t cells) {
    constexpr double one_by_one = 120; // cells across the box
    std::vector<FigurePoint> edge;
    if (place.extent > one_by_one) {
        edge = {place.at(0, 0), place.at(static_cast<double>(cells), static_cast<double>(cells))};
    } else {
        const double first = std::floor(std::max({place.left, place.top, 0.0}));
        const double last =
            std::min(std::ceil(std::min(place.left, place.top) + place.extent), static_cast<double>(cells));
        for (double at = first; at < last; ++at) {
            edge.push_back(place.at(at, at));
            edge.push_back(place.at(at + 1, at));
        }
        if (last > first) edge.push_back(place.at(last, last));
    }
    const FigureGroup group(pen.canvas, "edge");
    pen.canvas.polyline(edge, {mix(pen.style.theme.plot_border | alpha_mask,
                                   pen.style.theme.plot_background | alpha_mask, 0.45F),
                               pen.style.axis_pt});
}

void paint_stair(const FigurePen& pen, const CellPlace& place, const ShownStairs& shown) {
    const FigureGroup group(pen.canvas, fmt::format("staircase_{}", id_of(shown.of)));
    std::vector<FigurePoint> line;
    for (const StairCorner& corner : corners_of(shown.stairs))
        line.push_back(place.at(corner.row, corner.column));
    const Colour ground = pen.style.theme.plot_background | alpha_mask;
    pen.canvas.polyline(line, {with_alpha(ground, 0.8F), pen.style.line_pt * 2.4});
    pen.canvas.polyline(line, {opaque_colour(pen, shown.of), pen.style.line_pt * 1.2});
}

/// Where drafts are expected to end: a mark across the way, which is broken behind it.
void paint_drafts(const FigurePen& pen, const CellPlace& place, const ShownStairs& shown) {
    if (shown.stairs.drafts.empty()) return;
    const FigureGroup group(pen.canvas, fmt::format("drafts_{}", id_of(shown.of)));
    const Colour ground = pen.style.theme.plot_background | alpha_mask;
    const double half = pen.style.text_pt * 0.45;
    for (const ExpectedDraft& draft : shown.stairs.drafts) {
        const double row = static_cast<double>(shown.stairs.rows[static_cast<size_t>(draft.first)]) + 0.5;
        const FigurePoint end = place.at(row, static_cast<double>(draft.first) + draft.expected);
        const FigurePoint last = place.at(row, static_cast<double>(draft.last));
        if (last.x - end.x > 2 * half)
            pen.canvas.line(end, last, {ground, pen.style.line_pt * 1.4, pen.style.text_pt * 0.25});
        pen.canvas.line({end.x, end.y - half}, {end.x, end.y + half}, {ground, pen.style.line_pt * 2.4});
        pen.canvas.line({end.x, end.y - half}, {end.x, end.y + half},
                        {opaque_colour(pen, shown.of), pen.style.line_pt * 1.2});
    }
}

void paint_ring(const FigurePen& pen, FigurePoint at, double radius, int corners, Colour colour) {
    std::vector<FigurePoint> ring;
    for (int i = 0; i <= corners; ++i) {
        const double angle = (i + 0.5) * 2 * std::numbers::pi / corners;
        ring.push_back({at.x + radius * std::cos(angle), at.y + radius * std::sin(angle)});
    }
    pen.canvas.polygon(ring, pen.style.theme.plot_background | alpha_mask);
    pen.canvas.polyline(ring, {colour, pen.style.line_pt * 1.4});
}

/// A staircase of the picture: the run's is a square, the others are rings.
void paint_point(const FigurePen& pen, const PlotArea& area, const ShownStairs& shown) {
    const FigureGroup group(pen.canvas, fmt::format("point_{}", id_of(shown.of)));
    paint_ring(pen, area.at(static_cast<double>(shown.refreshes()), shown.above_teacher),
               pen.style.text_pt * 0.36, shown.of == StairsOf::run ? 4 : 16, opaque_colour(pen, shown.of));
}

/// \param points  a dot on each count that thresholds reach
void paint_line(const FigurePen& pen, const PlotArea& area, const std::string& id, const FrontierLine& line,
                const Stroke& stroke, bool points) {
    const FigureGroup group(pen.canvas, id);
    std::vector<FigurePoint> corners;
    for (const auto& [refreshes, above] : line)
        corners.push_back(area.at(refreshes, above));
    pen.canvas.polyline(corners, stroke);
    const double radius = stroke.width * 1.3;
    for (const FigurePoint& at : corners)
        if (points && area.rect.x <= at.x && at.x <= area.rect.right()) {
            const FigurePoint dot[] = {
                {at.x - radius, at.y}, {at.x, at.y - radius}, {at.x + radius, at.y}, {at.x, at.y + radius}};
            pen.canvas.polygon(dot, stroke.colour);
        }
}

} // namespace

std::string_view id_of(StairsOf of) {
    constexpr std::string_view ids[] = {"run", "policy", "blind", "best"};
    return ids[static_cast<size_t>(of)];
}

std::span<const StairsOf> stairs_in_order() {
    return order;
}

void paint_cells(const FigurePen& pen, const CellPlace& place, const Landscape& landscape,
                 const CellImage& image, const FigureImage& cells) {
    paint_missing_rows(pen, place, landscape);
    if (!cells.rgba.empty()) {
        const FigureGroup group(pen.canvas, "triangle");
        const FigurePoint from = place.at(static_cast<double>(image.region.first_row),
                                          static_cast<double>(image.region.first_column)),
                          to = place.at(static_cast<double>(image.region.last_row),
                                        static_cast<double>(image.region.last_column));
        pen.canvas.image({from.x, from.y, to.x - from.x, to.y - from.y}, cells);
    }
    paint_edge(pen, place, landscape.num_rows());
}

void paint_stairs(const FigurePen& pen, const CellPlace& place, const AllStairs& stairs,
                  const LandscapeView& view) {
    for (const StairsOf of : order)
        if (const ShownStairs& shown = stairs[static_cast<size_t>(of)]; shown.there() && view.shows(of)) {
            paint_stair(pen, place, shown);
            paint_drafts(pen, place, shown);
        }
}

double cell_axis_width(const FigurePen& pen) {
    return pen.canvas.width_of("10,000", pen.small()) + 2 * pen.style.tick_pt + pen.style.text_pt * 1.3;
}

void paint_cell_axes(const FigurePen& pen, const CellPlace& place, int64_t block) {
    const FigureRect& box = place.box;
    pen.canvas.frame(box, {pen.style.theme.plot_border, pen.style.axis_pt});
    // Rows grow downwards: no axis of a plot does.
    const auto first = static_cast<int64_t>(std::floor(place.top)),
               last = static_cast<int64_t>(std::ceil(place.top + place.extent));
    const auto fit = static_cast<int64_t>(box.height / (pen.style.small_pt * 2.2));
    for (const int64_t row : whole_ticks(first, last, std::max<int64_t>(2, fit))) {
        const double at = place.y(static_cast<double>(row) + 0.5);
        if (at < box.y || at > box.bottom()) continue;
        pen.canvas.line({box.x - pen.style.tick_pt, at}, {box.x, at},
                        {pen.style.theme.plot_border, pen.style.axis_pt});
        pen.canvas.text({box.x - 1.6 * pen.style.tick_pt, at + pen.style.small_pt * 0.35},
                        format_thousands(row), pen.small(TextStyle::Align::right));
    }
    TextStyle title = pen.text(TextStyle::Align::centre);
    title.upwards = true;
    std::string rows = "step of the last refresh";
    if (pen.canvas.width_of(rows, title) > box.height) rows = "last refresh";
    pen.canvas.text({box.x - cell_axis_width(pen) + pen.style.text_pt, box.y + box.height / 2}, rows, title);
    PlotArea area;
    area.rect = box;
    area.x_min = place.left + 0.5;
    area.x_max = place.left + place.extent + 0.5;
    draw_x_axis(pen, area, block > 1 ? fmt::format("step, mean of {0} x {0}", block) : "step");
}

void paint_frontier(const FigurePen& pen, const PlotArea& area, const FrontierPicture& picture) {
    const Theme& theme = pen.style.theme;
    pen.canvas.push_clip(area.rect);
    pen.canvas.line(area.at(area.x_min, 0), area.at(area.x_max, 0),
                    {theme.text_muted, pen.style.axis_pt, pen.style.text_pt * 0.25});
    for (const FrontierCurve& curve : picture.curves)
        paint_line(pen, area, fmt::format("frontier_{}{}", signal_of(curve), curve.of_draft ? "_policy" : ""),
                   curve_line(curve, picture.teacher_loss),
                   {theme.signal(signal_of(curve)), pen.style.line_pt * (curve.of_draft ? 1.4 : 0.7)}, true);
    if (picture.best && picture.best->best) {
        const double strong = pen.style.line_pt * 1.4;
        paint_line(pen, area, "best", best_line(*picture.best, picture.teacher_loss),
                   {opaque_colour(pen, StairsOf::best), strong}, false);
        paint_line(pen, area, "blind", blind_line(*picture.best, picture.teacher_loss),
                   {opaque_colour(pen, StairsOf::blind), strong}, false);
    }
    for (const StairsOf of : order)
        if (picture.stairs && (*picture.stairs)[static_cast<size_t>(of)].there())
            paint_point(pen, area, (*picture.stairs)[static_cast<size_t>(of)]);
    pen.canvas.pop_clip();
}

std::vector<LegendEntry> frontier_legend(const Theme& theme, const FrontierPicture& picture,
                                         std::span<const Signal> table) {
    const auto colour = [&](StairsOf of) { return stairs_colour(theme, of) | alpha_mask; };
    std::vector<LegendEntry> entries{
        {.words = "best possible", .colour = colour(StairsOf::best), .strong = true},
        {.words = "blind, mean", .colour = colour(StairsOf::blind), .strong = true},
        {"teacher", theme.text_muted, LegendEntry::Mark::dashed}};
    for (const FrontierCurve& curve : picture.curves)
        entries.push_back({.words = label_of(curve, table),
                           .colour = theme.signal(signal_of(curve)),
                           .strong = curve.of_draft});
    for (const StairsOf of : {StairsOf::run, StairsOf::policy}) {
        if (!picture.stairs) continue;
        const ShownStairs& shown = (*picture.stairs)[static_cast<size_t>(of)];
        if (shown.there())
            entries.push_back({of == StairsOf::run ? "this run" : "policy " + shown.name, colour(of),
                               LegendEntry::Mark::box});
    }
    return entries;
}

} // namespace refreshlab::ui
