// The refresh landscape of a text with the staircases of schedules, and the frontier of loss against refreshes.
#include "engine/base/error.h"
#include "engine/landscape/staircase.h"
#include "engine/record/recording/last_config.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/figure/kinds/kinds.h"
#include "ui/figure/kinds/map_parts.h"
#include "ui/scene/landscape/cell_colours.h"
#include "ui/scene/landscape/cell_pyramid.h"
#include "ui/scene/landscape/frontier_curves.h"
#include "ui/scene/landscape/landscape_model.h"
#include "ui/scene/landscape/staircases.h"
#include "ui/theme/stairs_colours.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace refreshlab::ui {

namespace {

std::shared_ptr<const Landscape> require_landscape(const FigureRequest& request) {
    if (!request.landscape || !request.landscape->has_row(0))
        throw Error("drawing a figure", "--panel " + request.panel, "the run has no landscape",
                    "refreshlab landscape TRACE computes it");
    return request.landscape;
}

CellValue require_value(const FigureRequest& request) {
    const auto values = cell_values(*request.landscape);
    if (std::ranges::find(values, request.views.landscape.cells.value) != values.end())
        return request.views.landscape.cells.value;
    std::vector<std::string> known;
    for (const CellValue& value : values)
        known.push_back(key_of(value));
    throw Error("drawing a figure", "--panel " + request.panel,
                fmt::format("the landscape does not hold '{}'", key_of(request.views.landscape.cells.value)),
                fmt::format("it holds {}", fmt::join(known, ", ")));
}

/// What the panel shows of this run and policy.
LandscapeModel model_of(const FigureRequest& request) {
    const Recording& run = *request.runs.front().recording;
    return make_landscape_model(require_landscape(request), refreshes_of(run, run.steps()),
                                request.policy.value_or(last_config(run).policy));
}

/// "Best possible: 4 refreshes, 0.12 nats above the teacher"
std::string words_of(const ShownStairs& shown) {
    return fmt::format("{}: {} {}, {} nats above the teacher",
                       shown.of == StairsOf::policy ? "Policy " + shown.name : shown.name,
                       format_thousands(shown.refreshes()), shown.refreshes() == 1 ? "refresh" : "refreshes",
                       format_number(shown.above_teacher));
}

/// The staircases in the order in which they lie over each other: the run's on top of none, the best on top of all.
constexpr StairsOf stairs_in_order[] = {StairsOf::run, StairsOf::policy, StairsOf::blind, StairsOf::best};
constexpr const char* id_of(StairsOf of) {
    constexpr const char* ids[] = {"run", "policy", "blind", "best"};
    return ids[static_cast<size_t>(of)];
}

Colour opaque_stairs_colour(const FigurePen& pen, StairsOf of) {
    return stairs_colour(pen.style.theme, of) | alpha_mask;
}

class LandscapeFigure final : public Figure {
public:
    explicit LandscapeFigure(const FigureRequest& request)
        : m_landscape(require_landscape(request))
        , m_value(require_value(request)) {
        for (LandscapeModel model = model_of(request); const StairsOf of : stairs_in_order)
            if (model.of(of).there() && request.views.landscape.shows(of)) m_stairs.push_back(model.of(of));
        const CellPyramid pyramid(m_landscape, m_value);
        const int64_t n = pyramid.size();
        m_image = pyramid.image({0, n, 0, n}, most_cells);
        m_colours = cell_colours(m_value, pyramid.spread(), request.views.landscape.cells.own_range());
    }

    double height(const FigurePen& pen, double width) const override {
        return width * 0.85 + legend_height(pen, width, legend(pen)) + 2 * pen.small_line() +
               pen.text_line() * 2.4;
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        const Theme& theme = pen.style.theme;
        double y = place.y + draw_legend(pen, {place.x, place.y}, place.width, legend(pen));
        const ColourScale scale{colour_map(m_colours.has_signs ? theme.map_signed : theme.map_amounts),
                                m_colours.range.min, m_colours.range.max, false};
        y += draw_colour_bar(pen, {place.x, y, place.width, 0}, scale,
                             with_unit(label_of(m_value), unit_of(m_value)),
                             {m_colours.below, m_colours.above});
        pen.canvas.text({place.x, y + pen.style.small_pt},
                        pen.fitted(words_of(m_colours), pen.muted(), place.width), pen.muted());
        y += pen.small_line() + 2;
        const auto n = static_cast<double>(m_landscape->num_steps());
        PlotArea area;
        area.x_min = 0.5;
        area.x_max = n + 0.5;
        area.y.min = -0.5;
        area.y.max = n - 0.5;
        const double labels = pen.canvas.width_of("10,000", pen.small()) + 5;
        area.rect = {place.x + labels + pen.style.text_pt * 1.3, y, 0,
                     place.bottom() - y - pen.text_line() * 2.2};
        area.rect.width = place.right() - area.rect.x - 2;
        pen.canvas.rectangle(area.rect, theme.plot_background);
        draw_cells(pen, area, scale);
        draw_edge(pen, area);
        for (const ShownStairs& shown : m_stairs)
            draw_stair(pen, area, shown.stairs, id_of(shown.of), opaque_stairs_colour(pen, shown.of));
        pen.canvas.frame(area.rect, {theme.plot_border, pen.style.axis_pt});
        // Rows go downwards: the labels of the y axis by hand.
        for (const int64_t row :
             whole_ticks(0, static_cast<int64_t>(n),
                         std::max<int64_t>(2, static_cast<int64_t>(area.rect.height / 22)))) {
            const double at = area.rect.y + (static_cast<double>(row) + 0.5) / n * area.rect.height;
            pen.canvas.line({area.rect.x - 2.5, at}, {area.rect.x, at},
                            {theme.plot_border, pen.style.axis_pt});
            pen.canvas.text({area.rect.x - 4, at + pen.style.small_pt * 0.35}, format_thousands(row),
                            pen.small(TextStyle::Align::right));
        }
        TextStyle title = pen.text(TextStyle::Align::centre);
        title.upwards = true;
        pen.canvas.text({place.x + pen.style.text_pt, area.rect.y + area.rect.height / 2},
                        "last refresh after step", title);
        draw_x_axis(pen, area, "step");
    }

    /// The rows that were computed, at full size.
    DataTable table() const override {
        DataTable table{{"last_refresh", "step", column_of(m_value)}, {}};
        const CellRows rows(m_landscape, m_value);
        std::vector<float> values;
        for (const int64_t j : m_landscape->rows()) {
            rows.read(j, values);
            for (int64_t i = j + 1; i <= m_landscape->num_steps(); ++i)
                table.rows.push_back({fmt::format("{}", j), fmt::format("{}", i),
                                      cell_text(values[static_cast<size_t>(i - 1)])});
        }
        return table;
    }

private:
    static constexpr int64_t most_cells = 512; ///< a side: more are means of blocks

    /// "loss_above_teacher_nats"; a signal's name has its unit already.
    static std::string column_of(const CellValue& value) {
        return value.kind == CellValue::Kind::signal ? value.signal
                                                     : fmt::format("{}_{}", key_of(value), unit_of(value));
    }

    /// Blocks of cells on the triangle; those that reach over its edge are cut there.
    void draw_cells(const FigurePen& pen, const PlotArea& area, const ColourScale& scale) const {
        std::vector<uint32_t> cells(m_image.values.size());
        for (size_t i = 0; i < cells.size(); ++i) {
            const float value = m_image.values[i];
            cells[i] = is_absent(value) ? 0U : scale(static_cast<double>(value));
        }
        const auto n = static_cast<double>(m_landscape->num_steps());
        const auto length = [&](int64_t blocks, double whole) {
            return static_cast<double>(blocks * m_image.block) / n * whole;
        };
        pen.canvas.push_clip(area.rect);
        {
            const FigureGroup group(pen.canvas, "triangle");
            pen.canvas.image({area.rect.x, area.rect.y, length(m_image.columns, area.rect.width),
                              length(m_image.rows, area.rect.height)},
                             m_image.columns, m_image.rows, cells);
        }
        pen.canvas.pop_clip();
    }

    /// Cells of no difference look like the ground below the triangle.
    void draw_edge(const FigurePen& pen, const PlotArea& area) const {
        const auto n = static_cast<double>(m_landscape->num_steps());
        std::vector<FigurePoint> edge;
        const auto add = [&](double column, double row) {
            edge.push_back(
                {area.rect.x + column / n * area.rect.width, area.rect.y + row / n * area.rect.height});
        };
        constexpr int64_t one_by_one = 120; // more cells are too small for steps
        const int64_t steps = m_landscape->num_steps() > one_by_one ? 0 : m_landscape->num_steps();
        add(0, 0);
        for (int64_t cell = 0; cell < steps; ++cell) {
            const auto at = static_cast<double>(cell);
            add(at, at + 1);
            add(at + 1, at + 1);
        }
        add(n, n);
        const FigureGroup group(pen.canvas, "edge");
        pen.canvas.polyline(edge, {mix(pen.style.theme.plot_border | alpha_mask,
                                       pen.style.theme.plot_background | alpha_mask, 0.5F),
                                   pen.style.axis_pt});
    }

    [[nodiscard]] std::vector<LegendEntry> legend(const FigurePen& pen) const {
        std::vector<LegendEntry> entries;
        for (const ShownStairs& shown : m_stairs)
            entries.push_back({words_of(shown), opaque_stairs_colour(pen, shown.of)});
        return entries;
    }

    static void draw_stair(const FigurePen& pen, const PlotArea& area, const Staircase& stair, const char* id,
                           Colour colour) {
        const FigureGroup group(pen.canvas, std::string("staircase_") + id);
        const double cells = area.y.max - area.y.min; // to a side
        std::vector<FigurePoint> line;
        for (const StairCorner& corner : corners_of(stair))
            line.push_back({area.rect.x + corner.column / cells * area.rect.width,
                            area.rect.y + corner.row / cells * area.rect.height});
        pen.canvas.polyline(
            line, {with_alpha(pen.style.theme.plot_background | alpha_mask, 0.8F), pen.style.line_pt * 2.4});
        pen.canvas.polyline(line, {colour, pen.style.line_pt * 1.2});
    }

    std::shared_ptr<const Landscape> m_landscape;
    CellValue m_value;
    std::vector<ShownStairs> m_stairs; ///< those that are drawn
    CellImage m_image;
    CellColours m_colours;
};

class FrontierFigure final : public Figure {
public:
    explicit FrontierFigure(const FigureRequest& request)
        : m_model(model_of(request))
        , m_recording(request.runs.front().recording)
        , m_curves(frontier_curves(frontier_question(
              m_model.landscape,
              request.policy.value_or(last_config(*request.runs.front().recording).policy))))
        , m_range(request.views.landscape.frontier.value_or(
              fitted_frontier(*m_model.landscape, &m_model.best, m_model.stairs))) {}

    double height(const FigurePen& pen, double width) const override {
        return std::min(width * 0.7, 200.0) + legend_height(pen, width, legend(pen)) + pen.text_line() * 2.4;
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        const double y = place.y + draw_legend(pen, {place.x, place.y}, place.width, legend(pen)) + 3;
        const Theme& theme = pen.style.theme;
        PlotArea area;
        area.x_min = m_range.refreshes.min;
        area.x_max = m_range.refreshes.max;
        area.y.min = m_range.loss.min;
        area.y.max = m_range.loss.max;
        const double high = place.bottom() - y - pen.text_line() * 2.2;
        const double labels = y_labels_width(pen, area.y, high);
        area.rect = {place.x + labels + pen.style.text_pt * 1.4, y, 0, high};
        area.rect.width = place.right() - area.rect.x - 4;
        draw_plot_ground(pen, area);
        pen.canvas.push_clip(area.rect);
        pen.canvas.line(area.at(area.x_min, 0), area.at(area.x_max, 0),
                        {theme.text_muted, pen.style.line_pt, 2});
        for (const FrontierCurve& curve : m_curves)
            draw_line(pen, area, "frontier_" + signal_of(curve) + (curve.of_draft ? "_policy" : ""),
                      curve_line(curve, m_model.teacher_loss),
                      {theme.signal(signal_of(curve)), pen.style.line_pt * (curve.of_draft ? 1.6 : 1.0)});
        const double strong = pen.style.line_pt * 1.6;
        draw_line(pen, area, "best", best_line(m_model.best, m_model.teacher_loss),
                  {opaque_stairs_colour(pen, StairsOf::best), strong});
        draw_line(pen, area, "blind", blind_line(m_model.best, m_model.teacher_loss),
                  {opaque_stairs_colour(pen, StairsOf::blind), strong});
        for (const ShownStairs& shown : m_model.stairs)
            if (shown.there()) draw_point(pen, area, shown);
        pen.canvas.pop_clip();
        pen.canvas.frame(area.rect, {theme.plot_border, pen.style.axis_pt});
        draw_y_axis(pen, area, "Loss above the teacher (nats)", labels);
        draw_x_axis(pen, area, "refreshes");
    }

    DataTable table() const override {
        DataTable table{{"curve", "threshold", "refreshes", "loss_nats", "loss_above_teacher_nats"}, {}};
        const auto row = [&](const std::string& curve, const std::string& threshold, double refreshes,
                             double above) {
            table.rows.push_back({curve, threshold, fmt::format("{}", std::llround(refreshes)),
                                  cell_text(above + m_model.teacher_loss), cell_text(above)});
        };
        for (const auto& [refreshes, above] : best_line(m_model.best, m_model.teacher_loss))
            row("best", "", refreshes, above);
        for (const auto& [refreshes, above] : blind_line(m_model.best, m_model.teacher_loss))
            row("blind", "", refreshes, above);
        for (const FrontierCurve& curve : m_curves)
            for (const FrontierPoint& point : curve.points)
                row(signal_of(curve) + (curve.of_draft ? " (this policy)" : ""), cell_text(point.threshold),
                    static_cast<double>(point.refreshes), point.loss - m_model.teacher_loss);
        for (const ShownStairs& shown : m_model.stairs)
            if (shown.there())
                row(shown.of == StairsOf::policy  ? "this policy"
                    : shown.of == StairsOf::run   ? "this run"
                    : shown.of == StairsOf::blind ? "blind at best"
                                                  : "best of its count",
                    "", static_cast<double>(shown.refreshes()), shown.above_teacher);
        return table;
    }

private:
    static void draw_line(const FigurePen& pen, const PlotArea& area, const std::string& id,
                          const FrontierLine& line, const Stroke& stroke) {
        const FigureGroup group(pen.canvas, id);
        std::vector<FigurePoint> points;
        for (const auto& [refreshes, above] : line)
            points.push_back(area.at(refreshes, above));
        pen.canvas.polyline(points, stroke);
    }

    /// A staircase of the picture: the run's is a square, the others are rings.
    static void draw_point(const FigurePen& pen, const PlotArea& area, const ShownStairs& shown) {
        const FigureGroup group(pen.canvas, std::string("point_") + id_of(shown.of));
        const FigurePoint at = area.at(static_cast<double>(shown.refreshes()), shown.above_teacher);
        const double radius = pen.style.text_pt * 0.3;
        const int corners = shown.of == StairsOf::run ? 4 : 16;
        std::vector<FigurePoint> ring;
        for (int i = 0; i <= corners; ++i) {
            const double angle = (i + 0.5) * 2 * std::numbers::pi / corners;
            ring.push_back({at.x + radius * std::cos(angle), at.y + radius * std::sin(angle)});
        }
        pen.canvas.polygon(ring, pen.style.theme.plot_background | alpha_mask);
        pen.canvas.polyline(ring, {opaque_stairs_colour(pen, shown.of), pen.style.line_pt * 1.2});
    }

    [[nodiscard]] std::vector<LegendEntry> legend(const FigurePen& pen) const {
        const Theme& theme = pen.style.theme;
        std::vector<LegendEntry> entries{{"best possible", opaque_stairs_colour(pen, StairsOf::best)},
                                         {"blind, mean", opaque_stairs_colour(pen, StairsOf::blind)},
                                         {"teacher", theme.text_muted, LegendEntry::Mark::dashed}};
        for (const FrontierCurve& curve : m_curves)
            entries.push_back({label_of(curve, m_recording->signals()), theme.signal(signal_of(curve))});
        for (const ShownStairs& shown : m_model.stairs)
            if (shown.there() && (shown.of == StairsOf::run || shown.of == StairsOf::policy))
                entries.push_back({shown.of == StairsOf::run ? "this run" : "policy " + shown.name,
                                   opaque_stairs_colour(pen, shown.of), LegendEntry::Mark::box});
        return entries;
    }

    LandscapeModel m_model;
    std::shared_ptr<const Recording> m_recording; ///< has the words of its signals
    std::vector<FrontierCurve> m_curves;
    FrontierRange m_range;
};

} // namespace

std::unique_ptr<Figure> make_landscape_figure(const FigureRequest& request) {
    return std::make_unique<LandscapeFigure>(request);
}
std::unique_ptr<Figure> make_frontier_figure(const FigureRequest& request) {
    return std::make_unique<FrontierFigure>(request);
}

} // namespace refreshlab::ui
