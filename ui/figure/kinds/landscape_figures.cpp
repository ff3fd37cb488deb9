// The refresh landscape of a text with the staircases of schedules, and the frontier of loss against refreshes.
#include "engine/base/error.h"
#include "engine/landscape/best_schedule.h"
#include "engine/landscape/frontier.h"
#include "engine/landscape/staircase.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/figure/kinds/kinds.h"
#include "ui/figure/kinds/map_parts.h"
#include "ui/scene/landscape/cell_colours.h"
#include "ui/scene/landscape/cell_pyramid.h"
#include "ui/scene/landscape/frontier_curves.h"
#include "ui/scene/landscape/staircases.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
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
    if (std::ranges::find(values, request.cells.value) != values.end()) return request.cells.value;
    std::vector<std::string> known;
    for (const CellValue& value : values)
        known.push_back(key_of(value));
    throw Error("drawing a figure", "--panel " + request.panel,
                fmt::format("the landscape does not hold '{}'", key_of(request.cells.value)),
                fmt::format("it holds {}", fmt::join(known, ", ")));
}

/// The refreshes of the run itself, as far as they are boundaries of the landscape; none where they have no staircase.
std::vector<int64_t> own_refreshes(const Recording& recording, const Landscape& landscape) {
    RunRefreshes run = refreshes_of(recording, recording.steps());
    if (!run.why_not.empty()) return {};
    std::erase_if(run.steps, [&](int64_t step) { return step < 1 || step >= landscape.num_rows(); });
    return std::move(run.steps);
}

class LandscapeFigure final : public Figure {
public:
    explicit LandscapeFigure(const FigureRequest& request)
        : m_landscape(require_landscape(request))
        , m_value(require_value(request)) {
        const Landscape& land = *m_landscape;
        const auto own = own_refreshes(*request.runs.front().recording, land);
        const size_t count =
            own.empty() ? std::min<size_t>(4, static_cast<size_t>(land.num_rows() - 1)) : own.size();
        if (!own.empty()) m_own = walk_schedule(land, own);
        const auto best = best_schedules(land, static_cast<int64_t>(count));
        m_best = walk_schedule(land, best_of_at_most(best, std::min(count, best.size() - 1)).steps);
        const CellPyramid pyramid(m_landscape, m_value);
        const int64_t n = pyramid.size();
        m_image = pyramid.image({0, n, 0, n}, most_cells);
        m_colours = cell_colours(m_value, pyramid.spread(), request.cells.own_range());
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
        draw_stair(pen, area, m_best, "best", best_colour(pen));
        if (m_own) draw_stair(pen, area, *m_own, "run", theme.text);
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

    static Colour best_colour(const FigurePen& pen) { return pen.style.theme.origin_refresh | alpha_mask; }

    [[nodiscard]] std::vector<LegendEntry> legend(const FigurePen& pen) const {
        std::vector<LegendEntry> entries;
        const auto words = [&](const char* who, const Staircase& stair) {
            const size_t n = stair.refreshes.size();
            return fmt::format("{}: {} {}, {} nats a token", who, n, n == 1 ? "refresh" : "refreshes",
                               format_number(stair.loss));
        };
        if (m_own) entries.push_back({words("this run", *m_own), pen.style.theme.text});
        entries.push_back({words("best", m_best), best_colour(pen)});
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
    std::optional<Staircase> m_own;
    Staircase m_best;
    CellImage m_image;
    CellColours m_colours;
};

class FrontierFigure final : public Figure {
public:
    explicit FrontierFigure(const FigureRequest& request)
        : m_landscape(require_landscape(request)) {
        const Landscape& land = *m_landscape;
        constexpr int64_t most = 32;
        m_best = best_schedules(land, std::min<int64_t>(most, land.num_rows() - 1));
        for (FrontierCurve& found : frontier_curves({m_landscape, preset_policy("none")})) {
            Curve curve{.signal = found.policy.triggers[found.trigger].signal,
                        .label = {},
                        .points = std::move(found.points)};
            const auto id = signal_id(curve.signal);
            curve.label = id ? std::string(signals()[*id].label) : curve.signal;
            std::erase_if(curve.points, [&](const FrontierPoint& p) {
                return p.refreshes > static_cast<int64_t>(m_best.size()) - 1;
            });
            if (curve.points.size() > 1) m_curves.push_back(std::move(curve));
        }
        const auto own = own_refreshes(*request.runs.front().recording, land);
        if (!own.empty() && own.size() < m_best.size()) m_own = walk_schedule(land, own);
    }

    double height(const FigurePen& pen, double width) const override {
        return std::min(width * 0.7, 200.0) + legend_height(pen, width, legend(pen)) + pen.text_line() * 2.4;
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        const double y = place.y + draw_legend(pen, {place.x, place.y}, place.width, legend(pen)) + 3;
        PlotArea area;
        area.x_min = -0.5;
        area.x_max = static_cast<double>(m_best.size()) - 0.5;
        SeriesSummary seen;
        const auto include = [&](double loss) { seen.add(seen.finite, static_cast<float>(loss)); };
        for (size_t k = 0; k < m_best.size(); ++k)
            include(best_of_at_most(m_best, k).loss);
        for (const Curve& curve : m_curves)
            for (const FrontierPoint& point : curve.points)
                include(point.loss);
        const double teacher = m_landscape->mean_teacher_loss();
        include(teacher);
        fit_axis(area.y, AxisScale::linear, seen, {}, {teacher, teacher + 0.1});
        const double high = place.bottom() - y - pen.text_line() * 2.2;
        const double labels = y_labels_width(pen, area.y, high);
        area.rect = {place.x + labels + pen.style.text_pt * 1.4, y, 0, high};
        area.rect.width = place.right() - area.rect.x - 4;
        draw_plot_ground(pen, area);
        pen.canvas.push_clip(area.rect);
        pen.canvas.line(area.at(area.x_min, teacher), area.at(area.x_max, teacher),
                        {pen.style.theme.text_muted, pen.style.line_pt, 2});
        for (const Curve& curve : m_curves) {
            const FigureGroup group(pen.canvas, "frontier_" + curve.signal);
            std::vector<FigurePoint> line;
            for (const FrontierPoint& point : curve.points)
                line.push_back(area.at(static_cast<double>(point.refreshes), point.loss));
            pen.canvas.polyline(line, {pen.style.theme.signal(curve.signal), pen.style.line_pt});
        }
        std::vector<FigurePoint> best;
        for (size_t k = 0; k < m_best.size(); ++k)
            best.push_back(area.at(static_cast<double>(k), best_of_at_most(m_best, k).loss));
        {
            const FigureGroup group(pen.canvas, "best");
            pen.canvas.polyline(best, {pen.style.theme.text, pen.style.line_pt * 1.4});
        }
        if (m_own) {
            const FigurePoint p = area.at(static_cast<double>(m_own->refreshes.size()), m_own->loss);
            const double r = 2.5;
            const FigurePoint diamond[] = {{p.x - r, p.y}, {p.x, p.y - r}, {p.x + r, p.y}, {p.x, p.y + r}};
            pen.canvas.polygon(diamond, pen.style.theme.accent_ink | alpha_mask);
        }
        pen.canvas.pop_clip();
        pen.canvas.frame(area.rect, {pen.style.theme.plot_border, pen.style.axis_pt});
        draw_y_axis(pen, area, "loss (nats a token)", labels);
        draw_x_axis(pen, area, "refreshes");
    }

    DataTable table() const override {
        DataTable table{{"curve", "threshold", "refreshes", "loss_nats"}, {}};
        for (size_t k = 0; k < m_best.size(); ++k)
            table.rows.push_back({"best", "", fmt::format("{}", k), cell_text(m_best[k].loss)});
        for (const Curve& curve : m_curves)
            for (const FrontierPoint& point : curve.points)
                table.rows.push_back({curve.signal, cell_text(point.threshold),
                                      fmt::format("{}", point.refreshes), cell_text(point.loss)});
        if (m_own)
            table.rows.push_back(
                {"this run", "", fmt::format("{}", m_own->refreshes.size()), cell_text(m_own->loss)});
        return table;
    }

private:
    struct Curve {
        std::string signal, label;
        std::vector<FrontierPoint> points; ///< by refreshes
    };

    [[nodiscard]] std::vector<LegendEntry> legend(const FigurePen& pen) const {
        const Theme& theme = pen.style.theme;
        std::vector<LegendEntry> entries{{"best possible", theme.text},
                                         {"teacher", theme.text_muted, LegendEntry::Mark::dashed}};
        for (const Curve& curve : m_curves)
            entries.push_back({curve.label, theme.signal(curve.signal)});
        if (m_own) entries.push_back({"this run", theme.accent_ink | alpha_mask, LegendEntry::Mark::box});
        return entries;
    }

    std::shared_ptr<const Landscape> m_landscape;
    std::vector<Schedule> m_best;
    std::vector<Curve> m_curves;
    std::optional<Staircase> m_own;
};

} // namespace

std::unique_ptr<Figure> make_landscape_figure(const FigureRequest& request) {
    return std::make_unique<LandscapeFigure>(request);
}
std::unique_ptr<Figure> make_frontier_figure(const FigureRequest& request) {
    return std::make_unique<FrontierFigure>(request);
}

} // namespace refreshlab::ui
