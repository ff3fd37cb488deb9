// Signals over steps: stacked plots on one axis, of one run or of several, with the differences to the first where asked for.
#include "engine/base/error.h"
#include "engine/text/utf8.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/figure/kinds/kinds.h"
#include "ui/figure/kinds/map_parts.h"
#include "ui/scene/maps/layer_strip.h"
#include "ui/scene/marks/markers.h"
#include "ui/scene/marks/refresh_marks.h"
#include "ui/scene/marks/rug.h"
#include "ui/scene/policy/live_changes.h"
#include "ui/scene/series/series_set.h"
#include "ui/theme/run_colours.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

namespace refreshlab::ui {

namespace {

using Align = TextStyle::Align;

constexpr double tick_row = 4; ///< points, with the gap below it

/// One run's curve of one signal.
struct Curve {
    size_t run = 0;
    SignalSeries series;
    std::optional<SignalSeries> band_low, band_high;
};

struct Plot {
    Signal signal;
    std::string title; ///< with the unit
    LayerPick pick;
    AxisScale scale = AxisScale::linear;
    bool strip = false;      ///< all layers of the one run as colours, in place of curves
    bool difference = false; ///< of the runs to the first
    std::vector<Curve> curves;
    std::vector<ThresholdSpan> thresholds;
    std::optional<size_t> right; ///< the plot whose curve has the axis on the right
};

class SignalsFigure final : public Figure {
public:
    SignalsFigure(const FigureRequest& request, bool differences);
    double height(const FigurePen& pen, double width) const override;
    void draw(const FigurePen& pen, const FigureRect& place) const override;
    DataTable table() const override;

private:
    [[nodiscard]] Plot plot_of(const SignalPlots& plots, std::string_view name) const;
    void pair_axes(const SignalPlots& plots);
    void find_marks();
    void add_differences();
    [[nodiscard]] ValueAxis axis_of(const Plot& plot, double height) const;
    [[nodiscard]] Colour colour_of_run(const FigurePen& pen, size_t run) const {
        return pen.style.runs[places_of_colours(m_runs, pen.style.runs.size())[run]];
    }
    [[nodiscard]] Colour colour_of(const FigurePen& pen, const Plot& plot, size_t run) const;
    [[nodiscard]] std::vector<LegendEntry> legend(const FigurePen& pen) const;
    [[nodiscard]] double marks_height(const FigurePen& pen) const;
    static double heading_height(const FigurePen& pen) { return pen.text_line() * 1.5; }
    void draw_curve(const FigurePen& pen, const PlotArea& area, const Plot& plot, const Curve& curve) const;
    void draw_thresholds(const FigurePen& pen, const PlotArea& area, const Plot& plot) const;
    [[nodiscard]] RefreshMarks refreshes_of(size_t run, const FigureRect& plot) const;
    void draw_refreshes(const FigurePen& pen, const FigureRect& marks) const;
    void draw_refresh_lines(const FigurePen& pen, const FigureRect& plot) const;
    void draw_plot(const FigurePen& pen, size_t index, PlotArea area, double labels, bool last) const;
    void draw_strip(const FigurePen& pen, const Plot& plot, const PlotArea& area) const;
    [[nodiscard]] double labels_of(const FigurePen& pen, const Plot& plot, double height) const;
    static double bar_height(const FigurePen& pen) { return pen.style.small_pt + 4; }
    [[nodiscard]] std::string changes_at(int64_t step) const;
    void draw_ticks(const FigurePen& pen, const FigureRect& marks) const;

    std::vector<FigureRun> m_runs;
    std::vector<int64_t> m_steps; ///< of each run, when the figure was made
    StepRange m_range;
    std::vector<Plot>
        m_plots;        ///< those with an axis on the right are at the end, and not drawn by themselves
    size_t m_drawn = 0; ///< plots that have a place
    int64_t m_vocab = 0;
    bool m_rug = false; ///< refreshes of the one run stand so close that each has a tick below the letters
    std::vector<std::pair<int64_t, std::string>> m_changes; ///< live changes of the one run: step, words
};

Plot SignalsFigure::plot_of(const SignalPlots& plots, std::string_view name) const {
    Plot plot;
    const PlotChoice& choice = plots.of(name);
    for (size_t run = 0; run < m_runs.size(); ++run) {
        const Recording& recording = *m_runs[run].recording;
        const auto id = recording.signal_id(name);
        if (!id) continue;
        plot.signal = recording.signals()[*id];
        Curve curve{.run = run, .series = {}, .band_low = {}, .band_high = {}};
        SeriesSet set;
        set.begin_frame(m_runs[run].recording, m_steps[run]);
        plot.pick = plot.signal.layered ? choice.layers : LayerPick{};
        plot.strip =
            plot.pick.strip && m_runs.size() == 1; // curves of several runs can be told apart, strips not
        plot.pick.strip = false;
        curve.series = set.series(*id, plot.pick);
        if (const auto* band = set.band(*id)) {
            curve.band_low = band->low;
            curve.band_high = band->high;
        }
        if (m_runs.size() == 1 && !plot.strip) {
            LiveChanges changes;
            changes.update(recording);
            plot.thresholds = threshold_stair(changes, m_steps[run], name, plot.pick);
        }
        plot.curves.push_back(std::move(curve));
    }
    plot.scale = choice.scale;
    plot.title = with_unit(plot.signal.label, plot.signal.unit);
    return plot;
}

SignalsFigure::SignalsFigure(const FigureRequest& request, bool differences)
    : m_runs(request.runs) {
    if (differences && m_runs.size() < 2)
        throw Error("drawing a figure", "--panel compare", "needs two runs or more",
                    "give more traces, or --run");
    int64_t longest = 0;
    for (size_t run = 0; run < m_runs.size(); ++run) {
        m_steps.push_back(m_runs[run].recording->steps());
        if (m_steps[run] > m_steps[static_cast<size_t>(longest)]) longest = static_cast<int64_t>(run);
    }
    const Recording& first = *m_runs[static_cast<size_t>(longest)].recording;
    m_range = steps_of(request, first);
    m_vocab = first.info().vocab_size;
    SignalPlots wanted = request.plots;
    if (!request.right_axis.empty()) {
        if (!first.signal_id(request.right_axis))
            throw Error("drawing a figure", "--right",
                        fmt::format("the run has no signal \"{}\"", visible_text(request.right_axis, 60)));
        wanted.choose(request.right_axis).shown = true;
    }
    for (const std::string& name : shown_signals(wanted)) {
        Plot plot = plot_of(wanted, name);
        const bool measured =
            std::ranges::any_of(plot.curves, [](const Curve& curve) { return curve.series.any_measured(); });
        if (measured)
            m_plots.push_back(std::move(plot));
        else if (request.all_signals || name == request.right_axis)
            throw Error("drawing a figure", name == request.right_axis ? "--right" : "--signals",
                        fmt::format("{} was not measured in this run", name));
    }
    // As the window orders them: by the run's table of signals.
    std::ranges::sort(m_plots, {}, [&](const Plot& plot) {
        return first.signal_id(plot.signal.name).value_or(max_signals);
    });
    if (m_plots.empty()) throw Error("drawing a figure", "--signals", "the run has none of these signals");
    if (!request.right_axis.empty()) {
        const auto host = std::ranges::find_if(
            m_plots, [&](const Plot& plot) { return plot.signal.name != request.right_axis && !plot.strip; });
        if (host == m_plots.end())
            throw Error("drawing a figure", "--right", "there is no plot of another signal to stand beside",
                        "name one with --signals");
        put_beside(wanted, request.right_axis, host->signal.name);
    }
    if (differences)
        add_differences();
    else
        pair_axes(wanted);
    if (m_drawn == 0) m_drawn = m_plots.size();
    if (m_runs.size() == 1) find_marks();
}

/// Signals with an axis on the right go to the end, and their hosts know them.
void SignalsFigure::pair_axes(const SignalPlots& plots) {
    std::vector<Signal> table;
    for (const Plot& plot : m_plots)
        table.push_back(plot.signal);
    std::vector<Plot> left, right;
    for (const PlotPair& pair : plot_pairs(plots, table)) {
        Plot& host = left.emplace_back(std::move(m_plots[pair.left]));
        if (!pair.right) continue;
        host.right = right.size(); // counted from the first of the right ones so far
        right.push_back(std::move(m_plots[*pair.right]));
    }
    m_drawn = left.size();
    for (Plot& plot : left)
        if (plot.right) *plot.right += m_drawn;
    m_plots = std::move(left);
    std::ranges::move(right, std::back_inserter(m_plots));
}

/// What stands above the plots of one run beside the letters.
void SignalsFigure::find_marks() {
    const Recording& recording = *m_runs.front().recording;
    int64_t seen = 0;
    const auto& refreshes = recording.refreshes();
    for (size_t i = 0; i < refreshes.size(); ++i)
        seen += refreshes[i].step >= m_range.first && refreshes[i].step <= m_range.last ? 1 : 0;
    m_rug = seen >= static_cast<int64_t>(many_refreshes);
    LiveChanges changes;
    changes.update(recording);
    for (const LiveChanges::Change& change : changes.all())
        if (change.step >= m_range.first && change.step <= m_range.last)
            m_changes.emplace_back(change.step, change.words);
}

/// After each plot one of the other runs minus the first, where both have a value.
void SignalsFigure::add_differences() {
    std::vector<Plot> plots;
    for (Plot& plot : m_plots) {
        Plot difference{.signal = plot.signal,
                        .title = plot.title + ", difference to the first",
                        .pick = plot.pick,
                        .scale = AxisScale::linear,
                        .difference = true,
                        .curves = {},
                        .thresholds = {},
                        .right = {}};
        for (const Curve& curve : plot.curves) {
            const Curve& base = plot.curves.front();
            if (&curve == &base) continue;
            Curve minus{.run = curve.run, .series = {}, .band_low = {}, .band_high = {}};
            for (int64_t t = 1; t <= std::min(curve.series.size(), base.series.size()); ++t) {
                const float a = curve.series.at(t), b = base.series.at(t);
                minus.series.append(is_absent(a) || is_absent(b) ? absent() : a - b);
            }
            difference.curves.push_back(std::move(minus));
        }
        plots.push_back(std::move(plot));
        if (!difference.curves.empty()) plots.push_back(std::move(difference));
    }
    m_plots = std::move(plots);
}

ValueAxis SignalsFigure::axis_of(const Plot& plot, double height) const {
    SeriesSummary seen;
    for (const Curve& curve : plot.curves) {
        seen.add(curve.series.summary(m_range.first, m_range.last));
        for (const auto& band : {&curve.band_low, &curve.band_high})
            if (*band) seen.add((*band)->summary(m_range.first, m_range.last));
    }
    std::vector<double> thresholds;
    for (const ThresholdSpan& span : plot.thresholds)
        thresholds.push_back(span.value);
    ValueAxis axis;
    ValueRange usual = usual_range(plot.signal, m_vocab);
    if (plot.difference) usual = {-0.01, 0.01};
    fit_axis(axis, plot.scale, seen, thresholds, usual);
    if (!plot.difference) clear_floor(axis, usual, 1.5 / std::max(height, 10.0));
    return axis;
}

Colour SignalsFigure::colour_of(const FigurePen& pen, const Plot& plot, size_t run) const {
    if (m_runs.size() == 1) return pen.style.theme.signal(plot.signal.name);
    return colour_of_run(pen, run);
}

std::vector<LegendEntry> SignalsFigure::legend(const FigurePen& pen) const {
    std::vector<LegendEntry> entries;
    if (m_runs.size() > 1) {
        for (size_t run = 0; run < m_runs.size(); ++run)
            entries.push_back({m_runs[run].name, colour_of_run(pen, run)});
        return entries;
    }
    bool thresholds = false;
    for (const Plot& plot : m_plots)
        thresholds |= !plot.thresholds.empty();
    for (const Plot& plot : m_plots)
        if (plot.right)
            for (const Plot* side : {&plot, &m_plots[*plot.right]})
                entries.push_back({side->title, colour_of(pen, *side, 0)});
    if (thresholds) entries.push_back({"threshold", pen.style.theme.text_muted, LegendEntry::Mark::dashed});
    if (!m_changes.empty())
        entries.push_back({"changed by hand", pen.style.theme.accent, LegendEntry::Mark::box});
    // What the letters of the refreshes mean.
    const Recording& recording = *m_runs.front().recording;
    std::map<char, std::string> letters;
    std::map<char, Colour> letters_colour;
    const auto& refreshes = recording.refreshes();
    for (size_t i = 0; i < refreshes.size(); ++i) {
        const RefreshEvent& event = refreshes[i];
        if (event.step < m_range.first || event.step > m_range.last) continue;
        std::string& words = letters[marker_letter(event)];
        if (!words.empty()) continue;
        letters_colour[marker_letter(event)] = marker_colour(pen.style.theme, event);
        words = !event.automatic ? "by hand" : event.hits.size() > 1 ? "several triggers" : "";
        if (words.empty() && !event.hits.empty()) {
            const auto id = recording.signal_id(event.hits.front().signal);
            words = id ? std::string(recording.signals()[*id].label) : event.hits.front().signal;
        }
    }
    for (const auto& [letter, words] : letters)
        entries.push_back({fmt::format("{} refresh: {}", letter, words), letters_colour[letter],
                           LegendEntry::Mark::letter});
    return entries;
}

double SignalsFigure::marks_height(const FigurePen& pen) const {
    if (m_runs.size() > 1) return tick_row * static_cast<double>(m_runs.size()) + 2;
    return pen.style.small_pt * 1.5 + tick_row * ((m_rug ? 1 : 0) + (m_changes.empty() ? 0 : 1));
}

double SignalsFigure::height(const FigurePen& pen, double width) const {
    const double plot = std::clamp(width * 0.28, 50.0, 100.0);
    double sum = legend_height(pen, width, legend(pen)) + marks_height(pen) + pen.text_line() * 2.2;
    for (size_t i = 0; i < m_drawn; ++i)
        sum += (m_plots[i].difference ? plot * 0.6 : plot) + heading_height(pen) +
               (m_plots[i].strip ? bar_height(pen) : 0);
    return sum;
}

void SignalsFigure::draw(const FigurePen& pen, const FigureRect& place) const {
    double y = place.y + draw_legend(pen, {place.x, place.y}, place.width, legend(pen));
    const double marks = marks_height(pen), headings = heading_height(pen) * static_cast<double>(m_drawn);
    double bars = 0; // of colours, above strips
    for (size_t i = 0; i < m_drawn; ++i)
        bars += m_plots[i].strip ? bar_height(pen) : 0;
    const double room = place.bottom() - pen.text_line() * 2.2 - y - marks - headings - bars;
    double shares = 0, labels = 0, labels_right = 0;
    for (size_t i = 0; i < m_drawn; ++i)
        shares += m_plots[i].difference ? 0.6 : 1;
    const auto height_of = [&](size_t i) { return room / shares * (m_plots[i].difference ? 0.6 : 1); };
    for (size_t i = 0; i < m_drawn; ++i) {
        labels = std::max(labels, labels_of(pen, m_plots[i], height_of(i)));
        if (const auto right = m_plots[i].right)
            labels_right = std::max(labels_right, labels_of(pen, m_plots[*right], height_of(i)));
    }
    PlotArea area;
    area.x_min = static_cast<double>(m_range.first) - 0.5;
    area.x_max = static_cast<double>(m_range.last) + 0.5;
    area.rect.x = place.x + labels;
    area.rect.width = place.right() - area.rect.x - std::max(6.0, labels_right);
    for (size_t i = 0; i < m_drawn; ++i) {
        const Plot& plot = m_plots[i];
        y += heading_height(pen);
        std::string title = plot.title;
        if (plot.right) title = fmt::format("{} (left), {} (right)", title, m_plots[*plot.right].title);
        pen.heading(i, m_drawn, {place.x, y - pen.style.text_pt * 0.45}, title, place.width);
        if (i == 0) {
            draw_refreshes(pen, {area.rect.x, y, area.rect.width, marks});
            y += marks;
        }
        if (plot.strip) y += bar_height(pen);
        area.rect.y = y;
        area.rect.height = height_of(i);
        draw_plot(pen, i, area, labels, i + 1 == m_drawn);
        y += area.rect.height;
    }
}

void SignalsFigure::draw_plot(const FigurePen& pen, size_t index, PlotArea area, double labels,
                              bool last) const {
    const Plot& plot = m_plots[index];
    const FigureGroup group(pen.canvas,
                            fmt::format("plot_{}{}", plot.signal.name, plot.difference ? "_difference" : ""));
    if (plot.strip) {
        draw_strip(pen, plot, area);
        draw_x_axis(pen, area, last ? "step" : "", last);
        return;
    }
    area.y = axis_of(plot, area.rect.height);
    draw_plot_ground(pen, area);
    draw_refresh_lines(pen, area.rect);
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
        const Plot& other = m_plots[*plot.right];
        right.y = axis_of(other, area.rect.height);
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
    if (plot.strip) return row_names_width(pen, layer_names(m_runs.front().recording->info().layers));
    return y_labels_width(pen, axis_of(plot, height), height);
}

/// Every layer a row, as in the window: a column of several steps has the largest value of each layer. Its colours stand above it.
void SignalsFigure::draw_strip(const FigurePen& pen, const Plot& plot, const PlotArea& area) const {
    const FigureRun& run = m_runs.front();
    LayerStrip strip;
    strip.update(run.recording, *run.recording->signal_id(plot.signal.name), m_steps.front(), area.x_min,
                 area.x_max, area.rect.width * 4);
    const ColourScale scale{colour_map(pen.style.theme.map_amounts), static_cast<double>(strip.lowest()),
                            static_cast<double>(strip.highest()), false};
    draw_absent(pen, area.rect);
    const int64_t columns = strip.columns(), layers = strip.layers();
    std::vector<uint32_t> cells(static_cast<size_t>(columns * layers));
    for (int64_t layer = 0; layer < layers; ++layer)
        for (int64_t c = 0; c < columns; ++c) {
            const float value = strip.at(layer, c);
            cells[static_cast<size_t>(layer * columns + c)] =
                is_absent(value) ? 0U : scale(static_cast<double>(value));
        }
    // Its columns begin at whole blocks of steps, so the first may begin before the axis does.
    const double first = static_cast<double>(strip.first_step()) - 0.5,
                 end = first + static_cast<double>(columns * strip.steps_per_column());
    pen.canvas.push_clip(area.rect);
    if (!cells.empty())
        pen.canvas.image({area.x(first), area.rect.y, area.x(end) - area.x(first), area.rect.height}, columns,
                         layers, cells);
    pen.canvas.pop_clip();
    draw_refresh_lines(pen, area.rect);
    pen.canvas.frame(area.rect, {pen.style.theme.plot_border, pen.style.axis_pt});
    draw_row_names(pen, area.rect, layer_names(layers));
    if (strip.any())
        draw_colour_bar(pen, {area.rect.x, area.rect.y - bar_height(pen), area.rect.width, 0}, scale,
                        plot.signal.unit);
}

void SignalsFigure::draw_curve(const FigurePen& pen, const PlotArea& area, const Plot& plot,
                               const Curve& curve) const {
    const Colour colour = colour_of(pen, plot, curve.run);
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
    const double width = pen.style.line_pt * (m_runs.size() > 1 && curve.run > 0 ? 1.8 : 1);
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

void SignalsFigure::draw_thresholds(const FigurePen& pen, const PlotArea& area, const Plot& plot) const {
    const Stroke stroke{pen.style.theme.text_muted, pen.style.line_pt * 0.8, 2};
    const FigureGroup group(pen.canvas, fmt::format("threshold_{}", plot.signal.name));
    for (const ThresholdSpan& span : plot.thresholds) {
        if (span.last < m_range.first || span.first > m_range.last || !area.y.has_place(span.value)) continue;
        pen.canvas.line(area.at(static_cast<double>(span.first) - 0.5, span.value),
                        area.at(static_cast<double>(span.last) + 0.5, span.value), stroke);
    }
}

RefreshMarks SignalsFigure::refreshes_of(size_t run, const FigureRect& plot) const {
    return refreshes_in_sight(*m_runs[run].recording, m_steps[run], static_cast<double>(m_range.first) - 0.5,
                              static_cast<double>(m_range.last) + 0.5, plot.x, plot.width);
}

/// Above the first plot: of one run letters, of several a row of ticks each.
void SignalsFigure::draw_refreshes(const FigurePen& pen, const FigureRect& marks) const {
    const FigureGroup group(pen.canvas, "refreshes");
    for (size_t run = 0; m_runs.size() > 1 && run < m_runs.size(); ++run) {
        const double y = marks.y + tick_row * static_cast<double>(run);
        for (const double x : refreshes_of(run, marks).x_px)
            pen.canvas.line({x, y}, {x, y + tick_row - 1}, {colour_of_run(pen, run), pen.style.line_pt});
    }
    if (m_runs.size() > 1) return;
    const Recording& recording = *m_runs.front().recording;
    const RefreshMarks seen = refreshes_of(0, marks);
    for (const MarkerGroup& merged : merge_markers(seen.x_px, pen.style.small_pt, pen.style.small_pt * 4)) {
        const char letter = group_letter(
            merged, [&](size_t i) { return marker_letter(recording.refreshes()[seen.events[i]]); });
        TextStyle text = pen.small(Align::centre);
        text.bold = true;
        text.colour = group_colour(pen.style.theme, recording, seen, merged);
        const std::string words =
            merged.count() > 1 ? fmt::format("{}{}", merged.count(), letter) : std::string(1, letter);
        pen.canvas.text({merged.x(), marks.y + pen.style.small_pt * 1.2}, words, text);
    }
    draw_ticks(pen, marks);
}

/// Below the letters: a tick of every refresh where they are many, and of every live change.
void SignalsFigure::draw_ticks(const FigurePen& pen, const FigureRect& marks) const {
    double y = marks.y + pen.style.small_pt * 1.5;
    const Recording& recording = *m_runs.front().recording;
    if (m_rug) {
        const FigureGroup group(pen.canvas, "rug");
        const RefreshMarks seen = refreshes_of(0, marks);
        for (size_t i = 0; i < seen.x_px.size(); ++i)
            pen.canvas.line(
                {seen.x_px[i], y}, {seen.x_px[i], y + tick_row - 1},
                {marker_colour(pen.style.theme, recording.refreshes()[seen.events[i]]), pen.style.line_pt});
        y += tick_row;
    }
    if (m_changes.empty()) return;
    const FigureGroup group(pen.canvas, "changes");
    const double per_step = marks.width / static_cast<double>(m_range.count());
    for (const auto& [step, words] : m_changes) {
        const double x = marks.x + (static_cast<double>(step - m_range.first) + 0.5) * per_step,
                     r = tick_row / 2;
        const FigurePoint triangle[] = {{x - r, y}, {x + r, y}, {x, y + tick_row - 0.5}};
        pen.canvas.polygon(triangle, pen.style.theme.accent);
    }
}

void SignalsFigure::draw_refresh_lines(const FigurePen& pen, const FigureRect& plot) const {
    if (m_runs.size() > 1) return;
    const RefreshMarks seen = refreshes_of(0, plot);
    // A crowd stands in the rug above the plots alone, as on the screen: the curves are what one looks at here.
    if (crowded(seen, plot.width, pen.style.small_pt)) return;
    for (const MarkerGroup& merged : merge_markers(seen.x_px, 1.0))
        pen.canvas.line(
            {merged.x(), plot.y}, {merged.x(), plot.bottom()},
            {with_alpha(group_colour(pen.style.theme, *m_runs.front().recording, seen, merged), 0.55F),
             pen.style.axis_pt});
}

std::string SignalsFigure::changes_at(int64_t step) const {
    std::string all;
    for (const auto& [at, words] : m_changes)
        if (at == step) all += (all.empty() ? "" : "; ") + words;
    return all;
}

DataTable SignalsFigure::table() const {
    DataTable table;
    table.columns.emplace_back("step");
    std::vector<const SignalSeries*> columns;
    for (const Plot& plot : m_plots) {
        for (const Curve& curve : plot.curves) {
            std::string name(plot.signal.name);
            if (plot.difference) name += "_minus_first";
            if (m_runs.size() > 1) name = m_runs[curve.run].name + ": " + name;
            table.columns.push_back(name);
            columns.push_back(&curve.series);
        }
    }
    const bool one = m_runs.size() == 1;
    const Recording& first = *m_runs.front().recording;
    if (one) table.columns.insert(table.columns.end(), {"refreshed", "reason", "changes"});
    std::vector<size_t> strips; // ids
    for (const Plot& plot : m_plots)
        if (plot.strip) strips.push_back(*first.signal_id(plot.signal.name));
    for (const size_t id : strips)
        for (int64_t layer = 0; layer < first.info().layers; ++layer)
            table.columns.push_back(fmt::format("{}_layer{}", first.signals()[id].name, layer));
    for (int64_t t = m_range.first; t <= m_range.last; ++t) {
        std::vector<std::string> row{fmt::format("{}", t)};
        for (const SignalSeries* series : columns)
            row.push_back(t <= series->size() ? cell_text(series->at(t)) : std::string());
        if (one) {
            const RefreshEvent* event = first.refresh_at(t);
            row.emplace_back(event ? "1" : "0");
            row.emplace_back(event ? std::string(1, marker_letter(*event)) : std::string());
            row.push_back(changes_at(t));
        }
        for (const size_t id : strips) {
            const auto values = first.layer_values(t, id);
            for (size_t layer = 0; layer < static_cast<size_t>(first.info().layers); ++layer)
                row.push_back(layer < values.size() ? cell_text(values[layer]) : std::string());
        }
        table.rows.push_back(std::move(row));
    }
    return table;
}

} // namespace

std::unique_ptr<Figure> make_signals_figure(const FigureRequest& request, bool differences) {
    return std::make_unique<SignalsFigure>(request, differences);
}

} // namespace refreshlab::ui
