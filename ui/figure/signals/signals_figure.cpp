// Signals over steps: stacked plots on one axis, of one run or of several, with the differences to the first where asked for.
#include "ui/base/format.h"
#include "ui/figure/kinds/kinds.h"
#include "ui/figure/paint/map_parts.h"
#include "ui/figure/signals/refresh_strip.h"
#include "ui/figure/signals/signals_model.h"
#include "ui/scene/maps/layer_strip.h"
#include "ui/scene/series/rejected_series.h"
#include "ui/scene/theme/run_colours.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace refreshlab::ui {

namespace {

using Plot = SignalsModel::Plot;
using Curve = SignalsModel::Curve;

class SignalsFigure final : public Figure {
public:
    SignalsFigure(const FigureRequest& request, bool differences)
        : m_model(request, differences) {}
    double height(const FigurePen& pen, double width) const override;
    void draw(const FigurePen& pen, const FigureRect& place) const override;
    DataTable table() const override { return m_model.table(); }

private:
    [[nodiscard]] Colour colour_of(const FigurePen& pen, const Plot& plot, size_t run) const;
    [[nodiscard]] std::vector<LegendEntry> legend(const FigurePen& pen) const;
    static double heading_height(const FigurePen& pen) { return pen.text_line() * 1.5; }
    void draw_curve(const FigurePen& pen, const PlotArea& area, const Plot& plot, const Curve& curve) const;
    static void draw_rejected(const FigurePen& pen, const PlotArea& area, const Plot& plot,
                              const Curve& curve, Colour colour);
    void draw_thresholds(const FigurePen& pen, const PlotArea& area, const Plot& plot) const;
    void draw_plot(const FigurePen& pen, size_t index, PlotArea area, double labels, bool last) const;
    void draw_strip(const FigurePen& pen, const Plot& plot, const PlotArea& area) const;
    [[nodiscard]] double labels_of(const FigurePen& pen, const Plot& plot, double height) const;
    static double bar_height(const FigurePen& pen) { return pen.style.small_pt + 4; }

    SignalsModel m_model;
};

Colour SignalsFigure::colour_of(const FigurePen& pen, const Plot& plot, size_t run) const {
    if (m_model.runs.size() == 1) return pen.style.theme.signal(plot.signal.name);
    return colour_of_run(pen, m_model, run);
}

std::vector<LegendEntry> SignalsFigure::legend(const FigurePen& pen) const {
    std::vector<LegendEntry> entries;
    if (m_model.runs.size() > 1) {
        for (size_t run = 0; run < m_model.runs.size(); ++run)
            entries.push_back({m_model.runs[run].name, colour_of_run(pen, m_model, run)});
        return entries;
    }
    bool thresholds = false;
    for (const Plot& plot : m_model.plots)
        thresholds |= !plot.thresholds.empty();
    for (const Plot& plot : m_model.plots)
        if (plot.right)
            for (const Plot* side : {&plot, &m_model.plots[*plot.right]})
                entries.push_back({side->title, colour_of(pen, *side, 0)});
    if (thresholds) entries.push_back({"threshold", pen.style.theme.text_muted, LegendEntry::Mark::dashed});
    if (m_model.has(MarkLane::blocked))
        entries.push_back(
            {"prevented by a limit", held_back_colour(pen.style.theme), LegendEntry::Mark::box});
    const bool rejected = std::ranges::any_of(m_model.plots, [](const Plot& plot) {
        return std::ranges::any_of(plot.curves,
                                   [](const Curve& curve) { return curve.rejected.has_value(); });
    });
    if (rejected)
        entries.push_back({"rejected drafts", with_alpha(pen.style.theme.text_muted, rejected_alpha)});
    if (m_model.has(MarkLane::cut))
        entries.push_back({"draft cut", pen.style.theme.text_error, LegendEntry::Mark::box});
    if (m_model.has(MarkLane::change))
        entries.push_back({"changed by hand", pen.style.theme.accent, LegendEntry::Mark::box});
    // What the letters of the refreshes mean.
    const Recording& recording = *m_model.runs.front().recording;
    std::map<char, std::string> letters;
    std::map<char, Colour> letters_colour;
    const auto& refreshes = recording.refreshes();
    for (size_t i = 0; i < refreshes.size(); ++i) {
        const RefreshEvent& event = refreshes[i];
        if (event.step < m_model.range.first || event.step > m_model.range.last) continue;
        std::string& words = letters[reason_letter(event.hits)];
        if (!words.empty()) continue;
        letters_colour[reason_letter(event.hits)] = marker_colour(pen.style.theme, event.hits);
        words = event.hits.size() > 1 && event.automatic ? "several triggers"
                                                         : reason_label(recording.signals(), event.hits);
    }
    for (const auto& [letter, words] : letters)
        entries.push_back({fmt::format("{} refresh: {}", letter, words), letters_colour[letter],
                           LegendEntry::Mark::letter});
    return entries;
}

double SignalsFigure::height(const FigurePen& pen, double width) const {
    const double plot = std::clamp(width * 0.28, 50.0, 100.0);
    double sum =
        legend_height(pen, width, legend(pen)) + refresh_strip_height(pen, m_model) + pen.text_line() * 2.2;
    for (size_t i = 0; i < m_model.drawn; ++i)
        sum += (m_model.plots[i].difference ? plot * 0.6 : plot) + heading_height(pen) +
               (m_model.plots[i].strip ? bar_height(pen) : 0);
    return sum + m_model.notes.height(pen, width);
}

void SignalsFigure::draw(const FigurePen& pen, const FigureRect& place) const {
    double y = place.y + draw_legend(pen, {place.x, place.y}, place.width, legend(pen));
    const double marks = refresh_strip_height(pen, m_model),
                 headings = heading_height(pen) * static_cast<double>(m_model.drawn);
    double bars = 0; // of colours, above strips
    for (size_t i = 0; i < m_model.drawn; ++i)
        bars += m_model.plots[i].strip ? bar_height(pen) : 0;
    const double notes = m_model.notes.height(pen, place.width),
                 room = place.bottom() - notes - pen.text_line() * 2.2 - y - marks - headings - bars;
    double shares = 0, labels = 0, labels_right = 0;
    for (size_t i = 0; i < m_model.drawn; ++i)
        shares += m_model.plots[i].difference ? 0.6 : 1;
    const auto height_of = [&](size_t i) { return room / shares * (m_model.plots[i].difference ? 0.6 : 1); };
    for (size_t i = 0; i < m_model.drawn; ++i) {
        labels = std::max(labels, labels_of(pen, m_model.plots[i], height_of(i)));
        if (const auto right = m_model.plots[i].right)
            labels_right = std::max(labels_right, labels_of(pen, m_model.plots[*right], height_of(i)));
    }
    PlotArea area;
    area.x_min = static_cast<double>(m_model.range.first) - 0.5;
    area.x_max = static_cast<double>(m_model.range.last) + 0.5;
    area.rect.x = place.x + labels;
    area.rect.width = place.right() - area.rect.x - std::max(6.0, labels_right);
    for (size_t i = 0; i < m_model.drawn; ++i) {
        const Plot& plot = m_model.plots[i];
        y += heading_height(pen);
        std::string title = plot.title;
        if (plot.right) title = fmt::format("{} (left), {} (right)", title, m_model.plots[*plot.right].title);
        // Above the plot itself: the label of its axis' top stands beside it.
        pen.heading(i, m_model.drawn, {area.rect.x, y - pen.style.text_pt * 0.45}, title,
                    place.right() - area.rect.x);
        if (i == 0) {
            draw_refresh_strip(pen, m_model, {area.rect.x, y, area.rect.width, marks});
            y += marks;
        }
        if (plot.strip) y += bar_height(pen);
        area.rect.y = y;
        area.rect.height = height_of(i);
        draw_plot(pen, i, area, labels, i + 1 == m_model.drawn);
        y += area.rect.height;
    }
    m_model.notes.paint(pen, {place.x, place.bottom() - notes}, place.width);
}

void SignalsFigure::draw_plot(const FigurePen& pen, size_t index, PlotArea area, double labels,
                              bool last) const {
    const Plot& plot = m_model.plots[index];
    const FigureGroup group(pen.canvas,
                            fmt::format("plot_{}{}", plot.signal.name, plot.difference ? "_difference" : ""));
    if (plot.strip) {
        draw_strip(pen, plot, area);
        draw_x_axis(pen, area, last ? "step" : "", last);
        return;
    }
    area.y = m_model.axis_of(plot, area.rect.height);
    draw_plot_ground(pen, area);
    if (!m_model.notes.empty())
        paint_note_bands(pen, m_model.marks.front(), m_model.steps_over(area.rect), area.rect, true);
    draw_refresh_lines(pen, m_model, area.rect);
    pen.canvas.push_clip(area.rect);
    if (plot.difference)
        pen.canvas.line(area.at(area.x_min, 0), area.at(area.x_max, 0),
                        {pen.style.theme.text_muted, pen.style.axis_pt});
    // The first run on top, the others wider below it: where runs agree both are seen.
    for (size_t i = plot.curves.size(); i-- > 0;)
        draw_curve(pen, area, plot, plot.curves[i]);
    draw_thresholds(pen, area, plot);
    pen.canvas.pop_clip();
    if (plot.right) {
        PlotArea right = area;
        const Plot& other = m_model.plots[*plot.right];
        right.y = m_model.axis_of(other, area.rect.height);
        pen.canvas.push_clip(area.rect);
        for (const Curve& curve : other.curves)
            draw_curve(pen, right, other, curve);
        draw_thresholds(pen, right, other);
        pen.canvas.pop_clip();
        draw_y_axis(pen, right, "", 0, true);
    }
    pen.canvas.frame(area.rect, {pen.style.theme.plot_border, pen.style.axis_pt});
    draw_y_axis(pen, area, "", labels);
    draw_x_axis(pen, area, last ? "step" : "", last);
}

double SignalsFigure::labels_of(const FigurePen& pen, const Plot& plot, double height) const {
    if (plot.strip) return row_names_width(pen, layer_names(m_model.runs.front().recording->info().layers));
    return y_labels_width(pen, m_model.axis_of(plot, height), height);
}

/// Every layer a row, as in the window: a column of several steps has the largest value of each layer. Its colours stand above it.
void SignalsFigure::draw_strip(const FigurePen& pen, const Plot& plot, const PlotArea& area) const {
    const FigureRun& run = m_model.runs.front();
    LayerStrip strip;
    strip.update(run.recording, *run.recording->signal_id(plot.signal.name), m_model.steps.front(),
                 area.x_min, area.x_max, area.rect.width * 4);
    const ColourScale scale{colour_map(pen.style.theme.map_amounts), static_cast<double>(strip.lowest()),
                            static_cast<double>(strip.highest()), false};
    const auto cells = strip_cells(strip, scale);
    pen.canvas.rectangle(area.rect, pen.style.theme.plot_background);
    paint_strip(pen, area, strip, {strip.columns(), strip.layers(), cells}, m_model.steps.front());
    draw_refresh_lines(pen, m_model, area.rect);
    pen.canvas.frame(area.rect, {pen.style.theme.plot_border, pen.style.axis_pt});
    draw_row_names(pen, area.rect, layer_names(strip.layers()));
    if (strip.any())
        draw_colour_bar(pen, {area.rect.x, area.rect.y - bar_height(pen), area.rect.width, 0}, scale,
                        plot.signal.unit);
}

void SignalsFigure::draw_curve(const FigurePen& pen, const PlotArea& area, const Plot& plot,
                               const Curve& curve) const {
    const Colour colour = colour_of(pen, plot, curve.run);
    if (curve.rejected) draw_rejected(pen, area, plot, curve, with_alpha(colour, rejected_alpha));
    const double columns = area.rect.width * 4; // four a point: 288 dpi
    const FigureGroup group(pen.canvas, fmt::format("curve_{}_{}", plot.signal.name, curve.run + 1));
    if (curve.band_low && curve.band_high) {
        std::vector<double> x, low, high;
        envelope(*curve.band_low, *curve.band_high, area.x_min, area.x_max, columns, x, low, high);
        clip_to_axis(area.y, low);
        std::vector<FigurePoint> outline;
        for (size_t i = 0; i <= x.size(); ++i) {
            if (i < x.size() && std::isfinite(low[i]) && std::isfinite(high[i])) {
                outline.push_back(area.at(x[i], high[i]));
                continue;
            }
            // A stretch ends: back along the lower edge.
            const size_t upper = outline.size();
            for (size_t back = 1; back <= upper; ++back)
                outline.push_back(area.at(x[i - back], low[i - back]));
            pen.canvas.polygon(outline, with_alpha(colour, 0.22F));
            outline.clear();
        }
    }
    PlotPath path;
    decimate(curve.series, area.x_min, area.x_max, columns, path);
    clip_to_axis(area.y, path);
    const auto placed = [&](const std::vector<double>& x, const std::vector<double>& y) {
        std::vector<FigurePoint> points;
        for (size_t i = 0; i < x.size(); ++i)
            points.push_back(area.at(x[i], y[i]));
        return points;
    };
    pen.canvas.polyline(placed(path.stair_x, path.stair_y),
                        {with_alpha(colour, 0.5F), pen.style.line_pt * 0.6});
    const bool below = m_model.runs.size() > 1 && curve.run > 0 && !plot.difference;
    const double width = pen.style.line_pt * (below ? 1.8 : 1);
    pen.canvas.polyline(placed(path.x, path.y), {colour, width});
    for (size_t i = 0; i < path.marker_x.size(); ++i) {
        const FigurePoint p = area.at(path.marker_x[i], path.marker_y[i]);
        const double r = pen.style.line_pt * 1.2;
        const FigurePoint diamond[] = {{p.x - r, p.y}, {p.x, p.y - r}, {p.x + r, p.y}, {p.x, p.y + r}};
        pen.canvas.polygon(diamond, colour);
    }
    // What is no number: a small mark at the edge where it points to.
    for (const auto& [marks, top] : {std::pair{&path.nan_x, false}, std::pair{&path.pos_inf_x, true},
                                     std::pair{&path.neg_inf_x, false}, std::pair{&path.below_x, false}})
        for (const double step : *marks) {
            const double x = area.x(step), y = top ? area.rect.y : area.rect.bottom(), d = top ? 3 : -3;
            pen.canvas.line({x, y}, {x, y + d}, {colour, pen.style.line_pt});
        }
}

/// What rejected drafts had, below the curve of what stays; nothing joins one draft with the next.
void SignalsFigure::draw_rejected(const FigurePen& pen, const PlotArea& area, const Plot& plot,
                                  const Curve& curve, Colour colour) {
    PlotPath path;
    decimate(*curve.rejected, area.x_min, area.x_max, area.rect.width * 4, path);
    clip_to_axis(area.y, path);
    const FigureGroup group(pen.canvas, fmt::format("rejected_{}_{}", plot.signal.name, curve.run + 1));
    std::vector<FigurePoint> points;
    for (size_t i = 0; i < path.x.size(); ++i)
        points.push_back(area.at(path.x[i], path.y[i]));
    pen.canvas.polyline(points, {colour, pen.style.line_pt});
    const double r = pen.style.line_pt * 1.4;
    for (size_t i = 0; i < path.marker_x.size(); ++i) {
        const FigurePoint p = area.at(path.marker_x[i], path.marker_y[i]);
        const FigurePoint diamond[] = {{p.x - r, p.y}, {p.x, p.y - r}, {p.x + r, p.y}, {p.x, p.y + r}};
        pen.canvas.polygon(diamond, colour);
    }
}

void SignalsFigure::draw_thresholds(const FigurePen& pen, const PlotArea& area, const Plot& plot) const {
    const Stroke stroke{pen.style.theme.text_muted, pen.style.line_pt * 0.8, 2};
    const FigureGroup group(pen.canvas, fmt::format("threshold_{}", plot.signal.name));
    for (const ThresholdSpan& span : plot.thresholds) {
        if (span.last < m_model.range.first || span.first > m_model.range.last ||
            !area.y.has_place(span.value))
            continue;
        pen.canvas.line(area.at(static_cast<double>(span.first) - 0.5, span.value),
                        area.at(static_cast<double>(span.last) + 0.5, span.value), stroke);
    }
}

} // namespace

std::unique_ptr<Figure> make_signals_figure(const FigureRequest& request, bool differences) {
    return std::make_unique<SignalsFigure>(request, differences);
}

} // namespace refreshlab::ui
