// The refresh landscape of a text with the staircases of schedules, and the frontier of loss against refreshes.
#include "engine/base/error.h"
#include "engine/landscape/staircase.h"
#include "engine/record/recording/logged_config.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/figure/kinds/kinds.h"
#include "ui/figure/paint/landscape_paint.h"
#include "ui/scene/landscape/cell_colours.h"
#include "ui/scene/landscape/cell_pyramid.h"
#include "ui/scene/landscape/frontier_curves.h"
#include "ui/scene/landscape/landscape_model.h"
#include "ui/scene/landscape/objective_words.h"
#include "ui/scene/landscape/staircases.h"
#include "ui/scene/maps/heatmap.h"
#include "ui/scene/theme/stairs_colours.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace refreshlab::ui {

namespace {

std::shared_ptr<const Landscape> require_landscape(const FigureRequest& request) {
    if (!request.landscape || !request.landscape->has_row(0))
        throw Error("drawing a figure", "--panel " + request.panel, "the run has no landscape",
                    "refreshlab landscape TRACE computes it");
    return request.landscape;
}

CellValue require_value(const FigureRequest& request, Objective objective) {
    const auto values = cell_values(*request.landscape, objective);
    const CellValue wanted = request.views.landscape.cells.under(objective);
    if (std::ranges::find(values, wanted) != values.end()) return wanted;
    std::vector<std::string> known;
    for (const CellValue& value : values)
        known.push_back(key_of(value));
    throw Error("drawing a figure", "--panel " + request.panel,
                fmt::format("the landscape does not hold '{}'", key_of(wanted)),
                fmt::format("it holds {}", fmt::join(known, ", ")));
}

/// What the panel shows of this run and policy.
LandscapeModel model_of(const FigureRequest& request, Objective objective) {
    const Recording& run = *request.runs.front().recording;
    return make_landscape_model(require_landscape(request), refreshes_of(run, run.steps()),
                                request.policy.value_or(last_config(run).policy), objective);
}

/// "Best possible: 4 refreshes, 0.12 nats above the teacher"
std::string words_of(const ShownStairs& shown) {
    return fmt::format("{}: {}, {} {}", shown.of == StairsOf::policy ? "Policy " + shown.name : shown.name,
                       format_count(shown.refreshes(), "refresh"), format_number(shown.told),
                       told_unit(shown.objective));
}

class LandscapeFigure final : public Figure {
public:
    explicit LandscapeFigure(const FigureRequest& request)
        : m_landscape(require_landscape(request))
        , m_objective(judged_by(request))
        , m_value(require_value(request, m_objective))
        , m_view(request.views.landscape)
        , m_stairs(model_of(request, m_objective).stairs) {
        const CellPyramid pyramid(m_landscape, m_value);
        const int64_t n = pyramid.size();
        m_image = pyramid.image({0, n, 0, n}, most_cells);
        m_colours = cell_colours(m_value, pyramid.spread(), m_view.cells.own_range(m_objective));
    }

    double height(const FigurePen& pen, double width) const override {
        return width * 0.85 + legend_height(pen, width, legend(pen)) + 2 * pen.small_line() +
               pen.text_line() * 2.4;
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        const Theme& theme = pen.style.theme;
        double y = place.y + draw_legend(pen, {place.x, place.y}, place.width, legend(pen)) + 2;
        const ColourScale scale{colour_map(m_colours.has_signs ? theme.map_signed : theme.map_amounts),
                                m_colours.range.min, m_colours.range.max, false};
        y += draw_colour_bar(pen, {place.x, y, place.width, 0}, scale,
                             with_unit(label_of(m_value), unit_of(m_value)),
                             {m_colours.below, m_colours.above});
        pen.canvas.text({place.x, y + pen.style.small_pt},
                        pen.fitted(words_of(m_colours), pen.muted(), place.width), pen.muted());
        y += pen.small_line() + 2;
        const double left = cell_axis_width(pen);
        const CellPlace cells{
            {place.x + left, y, place.width - left - 2, place.bottom() - y - x_axis_height(pen)},
            0,
            0,
            static_cast<double>(m_landscape->num_steps())};
        std::vector<uint32_t> rgba(m_image.values.size());
        colour_values(m_image.values, scale, rgba);
        pen.canvas.rectangle(cells.box, theme.plot_background);
        pen.canvas.push_clip(cells.box); // blocks of cells reach over the edge
        paint_cells(pen, cells, *m_landscape, m_image,
                    {.width = m_image.columns, .height = m_image.rows, .rgba = rgba});
        paint_stairs(pen, cells, m_stairs, m_view);
        pen.canvas.pop_clip();
        paint_cell_axes(pen, cells, m_image.block);
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
        if (value.kind == CellValue::Kind::signal) return value.signal;
        if (value.kind == CellValue::Kind::above_teacher) {
            return value.objective == Objective::tokens_a_pass ? "draft_ended"
                                                               : std::string(above_column(value.objective));
        }
        return fmt::format("{}_{}", key_of(value), unit_of(value));
    }

    [[nodiscard]] std::vector<LegendEntry> legend(const FigurePen& pen) const {
        std::vector<LegendEntry> entries;
        for (const StairsOf of : stairs_in_order())
            if (const ShownStairs& shown = m_stairs[static_cast<size_t>(of)];
                shown.there() && m_view.shows(of)) {
                const Colour colour = stairs_colour(pen.style.theme, of) | alpha_mask;
                entries.push_back({words_of(shown), colour});
                if (const std::string drafts = draft_words(shown.stairs.drafts); !drafts.empty())
                    entries.push_back({drafts, colour, LegendEntry::Mark::dashed});
            }
        return entries;
    }

    std::shared_ptr<const Landscape> m_landscape;
    Objective m_objective;
    CellValue m_value;
    LandscapeView m_view;
    AllStairs m_stairs;
    CellImage m_image;
    CellColours m_colours;
};

class FrontierFigure final : public Figure {
public:
    explicit FrontierFigure(const FigureRequest& request)
        : m_model(model_of(request, judged_by(request)))
        , m_recording(request.runs.front().recording)
        , m_curves(frontier_curves(frontier_question(
              m_model.landscape, request.policy.value_or(last_config(*request.runs.front().recording).policy),
              m_model.objective)))
        , m_range(request.views.landscape.frontier.value_or(
              fitted_frontier(*m_model.landscape, &m_model.best, m_model.stairs, m_model.objective))) {}

    double height(const FigurePen& pen, double width) const override {
        return std::min(width * 0.7, 200.0) + legend_height(pen, width, legend(pen)) + pen.text_line() * 2.4;
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        const double y = place.y + draw_legend(pen, {place.x, place.y}, place.width, legend(pen)) + 3;
        PlotArea area;
        area.x_min = m_range.refreshes.min;
        area.x_max = m_range.refreshes.max;
        area.y.min = m_range.loss.min;
        area.y.max = m_range.loss.max;
        const double high = place.bottom() - y - x_axis_height(pen);
        const double labels = y_labels_width(pen, area.y, high);
        area.rect = {place.x + labels + pen.style.text_pt * 1.4, y, 0, high};
        area.rect.width = place.right() - area.rect.x - 4;
        draw_plot_ground(pen, area);
        paint_frontier(pen, area, picture());
        pen.canvas.frame(area.rect, {pen.style.theme.plot_border, pen.style.axis_pt});
        draw_y_axis(pen, area, axis_label(m_model.objective), labels);
        draw_x_axis(pen, area, "refreshes");
    }

    DataTable table() const override {
        DataTable table{{"curve", "threshold", "refreshes", std::string(loss_column(m_model.objective)),
                         std::string(above_column(m_model.objective))},
                        {}};
        const auto row = [&](const std::string& curve, const std::string& threshold, double refreshes,
                             double above) {
            const auto count = static_cast<int64_t>(std::llround(refreshes));
            const double loss = shown_value(m_model.objective, above + m_model.teacher_loss,
                                            m_model.landscape->num_steps(), count);
            table.rows.push_back(
                {curve, threshold, fmt::format("{}", count), cell_text(loss), cell_text(above)});
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
    [[nodiscard]] FrontierPicture picture() const {
        return {m_model.teacher_loss, m_curves, &m_model.best, &m_model.stairs};
    }
    [[nodiscard]] std::vector<LegendEntry> legend(const FigurePen& pen) const {
        return frontier_legend(pen.style.theme, picture(), m_recording->signals());
    }

    LandscapeModel m_model;
    std::shared_ptr<const Recording> m_recording; ///< has the words of its signals
    std::vector<FrontierCurve> m_curves;
    FrontierRange m_range;
};

} // namespace

Objective judged_by(const FigureRequest& request) {
    const auto landscape = require_landscape(request);
    const std::vector<std::string>& values = landscape->info().values;
    const std::optional<Objective>& chosen = request.views.landscape.objective;
    if (!chosen) return default_objective(request.runs.front().recording->info().config, values).objective;
    if (const std::string why = why_untold(values, *chosen); !why.empty())
        throw Error(
            "drawing a figure", fmt::format("the landscape by {}", to_string(*chosen)), why,
            fmt::format("refreshlab landscape TRACE --objective {} computes them", to_string(*chosen)));
    return *chosen;
}
std::unique_ptr<Figure> make_landscape_figure(const FigureRequest& request) {
    return std::make_unique<LandscapeFigure>(request);
}
std::unique_ptr<Figure> make_frontier_figure(const FigureRequest& request) {
    return std::make_unique<FrontierFigure>(request);
}

} // namespace refreshlab::ui
