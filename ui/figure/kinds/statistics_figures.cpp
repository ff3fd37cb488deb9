// The distribution of a signal, and what refreshes cost.
#include "engine/base/error.h"
#include "engine/record/recording/logged_config.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/figure/kinds/kinds.h"
#include "ui/figure/paint/distribution_paint.h"
#include "ui/scene/maps/pair_colours.h"
#include "ui/scene/policy/live_changes.h"
#include "ui/scene/series/distribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace refreshlab::ui {

namespace {

/// Thresholds that stand in the plot of a signal: those of the policy that is drafted, else those that the run went by.
std::vector<ShownThreshold> thresholds_of(const FigureRequest& request, const Recording& recording,
                                          StepRange range, std::string_view signal) {
    std::vector<ShownThreshold> found;
    const auto add = [&](double value, Comparison comparison, bool enabled) {
        if (std::ranges::find(found, value, &ShownThreshold::value) == found.end())
            found.push_back({value, comparison, enabled});
    };
    const auto of_signal = [&](const Trigger& trigger) {
        return trigger.signal == signal && trigger.reduce == Reduction::mean;
    };
    if (request.policy) {
        for (const Trigger& trigger : request.policy->triggers)
            if (of_signal(trigger)) add(trigger.threshold, trigger.comparison, trigger.enabled);
        return found;
    }
    const RefreshPolicy ran = last_config(recording).policy;
    const auto trigger = std::ranges::find_if(ran.triggers, of_signal);
    LiveChanges changes;
    changes.update(recording);
    for (const ThresholdSpan& span : threshold_stair(changes, recording.steps(), signal, {}))
        if (span.last >= range.first && span.first <= range.last)
            add(span.value, trigger == ran.triggers.end() ? Comparison::above : trigger->comparison, true);
    return found;
}

/// What a distribution is of, found in a run.
struct Counted {
    explicit Counted(const FigureRequest& request)
        : recording(request.runs.front().recording)
        , range(steps_of(request, *recording)) {
        const DistributionView& view = request.views.distribution;
        const auto table = recording->signals();
        id = require_signal(table, view.signal, "--signal");
        if (!view.other.empty()) other = require_signal(table, view.other, "--signal");
    }
    /// The axis of one of the signals: its values, with what its thresholds need.
    void fit(PlotArea& area, bool along_x, const Histogram& bins, const Signal& signal,
             const std::vector<ShownThreshold>& lines) const {
        const ValueRange fitted = distribution_range(bins, lines, signal, recording->info().vocab_size);
        (along_x ? area.x_min : area.y.min) = fitted.min;
        (along_x ? area.x_max : area.y.max) = fitted.max;
    }

    std::shared_ptr<const Recording> recording;
    StepRange range;
    size_t id = 0;
    std::optional<size_t> other;
};

void draw_thresholds(const FigurePen& pen, const PlotArea& area, const std::vector<ShownThreshold>& lines,
                     bool along_x) {
    const FigureGroup group(pen.canvas, along_x ? "thresholds" : "thresholds_of_other");
    for (const ShownThreshold& line : lines) {
        const Stroke stroke{with_alpha(pen.style.theme.text_muted | alpha_mask, line.enabled ? 1.0F : 0.45F),
                            pen.style.line_pt, pen.style.text_pt * 0.25};
        if (along_x)
            pen.canvas.line({area.x(line.value), area.rect.y}, {area.x(line.value), area.rect.bottom()},
                            stroke);
        else
            pen.canvas.line({area.rect.x, area.y_of(line.value)}, {area.rect.right(), area.y_of(line.value)},
                            stroke);
    }
}

class DistributionFigure final : public Figure {
public:
    DistributionFigure(const FigureRequest& request, const Counted& of)
        : m_of(of)
        , m_info(of.recording->signals()[of.id])
        , m_statistics(
              signal_statistics(*of.recording, of.recording->steps(), of.id, of.range.first, of.range.last))
        , m_thresholds(thresholds_of(request, *of.recording, of.range, m_info.name))
        , m_log(request.views.distribution.log) {
        if (m_statistics.sorted.empty())
            throw Error("drawing a figure", "--signal",
                        fmt::format("{} was not measured at these steps", m_info.name));
    }

    double height(const FigurePen& pen, double width) const override {
        return std::min(width * 0.6, 170.0) + pen.text_line() * 2.4 + pen.small_line();
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        const Histogram bins =
            histogram(m_statistics.sorted, bins_that_fit(pen, place.width), m_info.unit == "tokens");
        PlotArea area;
        m_of.fit(area, true, bins, m_info, m_thresholds);
        area.y = count_axis(std::ranges::max(bins.counts), m_log);
        const double high = place.height - x_axis_height(pen) - pen.small_line();
        const double labels = y_labels_width(pen, area.y, high);
        area.rect = {place.x + labels + pen.style.text_pt * 1.4, place.y + pen.small_line(), 0, high};
        area.rect.width = place.right() - area.rect.x - 4;
        pen.canvas.text(
            {area.rect.x, place.y + pen.style.small_pt},
            fmt::format("{} values, mean {}{}",
                        format_thousands(static_cast<int64_t>(m_statistics.sorted.size())),
                        format_number(m_statistics.mean.value_or(0)),
                        m_statistics.sd ? fmt::format(", sd {}", format_number(*m_statistics.sd)) : ""),
            pen.muted());
        draw_plot_ground(pen, area);
        paint_bars(pen, area, bins, m_thresholds, pen.style.theme.signal(m_info.name));
        draw_thresholds(pen, area, m_thresholds, true);
        pen.canvas.frame(area.rect, {pen.style.theme.plot_border, pen.style.axis_pt});
        draw_y_axis(pen, area, "count (steps)", labels);
        draw_value_x_axis(pen, area, with_unit(m_info.label, m_info.unit));
    }

    DataTable table() const override {
        DataTable table{{std::string(m_info.name)}, {}};
        for (const double value : m_statistics.sorted)
            table.rows.push_back({cell_text(value)});
        return table;
    }

private:
    Counted m_of; ///< keeps the recording, which has the words of its signals
    Signal m_info;
    SignalStatistics m_statistics;
    std::vector<ShownThreshold> m_thresholds;
    bool m_log;
};

/// Two signals against each other: how many steps have which values of both.
class PairsFigure final : public Figure {
public:
    PairsFigure(const FigureRequest& request, const Counted& of)
        : m_of(of)
        , m_info(of.recording->signals()[of.id])
        , m_other(of.recording->signals()[*of.other])
        , m_pairs(signal_pairs(*of.recording, of.recording->steps(), of.id, *of.other, of.range.first,
                               of.range.last))
        , m_thresholds(thresholds_of(request, *of.recording, of.range, m_info.name))
        , m_others(thresholds_of(request, *of.recording, of.range, m_other.name))
        , m_log(request.views.distribution.log) {
        if (m_pairs.x.empty())
            throw Error(
                "drawing a figure", "--signal",
                fmt::format("{} and {} were not measured at the same steps", m_info.name, m_other.name));
    }

    double height(const FigurePen& pen, double width) const override {
        return std::min(width * 0.8, 260.0) + pen.text_line() * 2.4 + 3 * pen.small_line();
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        const PairHistogram cells =
            pair_histogram(m_pairs, cells_that_fit(pen, place.width), cells_that_fit(pen, place.height * 0.7),
                           m_info.unit == "tokens", m_other.unit == "tokens");
        const ColourScale scale = pair_scale(pen.style.theme.map_amounts, cells.most, m_log);
        const double top =
            draw_colour_bar(pen, {place.x, place.y, place.width, 0}, scale, "steps") + pen.small_line();
        pen.canvas.text({place.x, place.y + top - pen.small_line() + pen.style.small_pt},
                        fmt::format("{}{}", format_count(static_cast<int64_t>(m_pairs.x.size()), "step"),
                                    m_pairs.correlation
                                        ? fmt::format(", correlation {}", format_number(*m_pairs.correlation))
                                        : ""),
                        pen.muted());
        PlotArea area;
        m_of.fit(area, true, cells.x, m_info, m_thresholds);
        m_of.fit(area, false, cells.y, m_other, m_others);
        const double high = place.height - top - x_axis_height(pen) - pen.small_line();
        const double labels = y_labels_width(pen, area.y, high);
        area.rect = {place.x + labels + pen.style.text_pt * 1.4, place.y + top + pen.small_line() * 0.5, 0,
                     high};
        area.rect.width = place.right() - area.rect.x - 4;
        draw_plot_ground(pen, area);
        paint_pair_cells(pen, area, cells, scale);
        draw_thresholds(pen, area, m_thresholds, true);
        draw_thresholds(pen, area, m_others, false);
        pen.canvas.frame(area.rect, {pen.style.theme.plot_border, pen.style.axis_pt});
        draw_y_axis(pen, area, with_unit(m_other.label, m_other.unit), labels);
        draw_value_x_axis(pen, area, with_unit(m_info.label, m_info.unit));
    }

    DataTable table() const override {
        DataTable table{{std::string(m_info.name), std::string(m_other.name)}, {}};
        for (size_t i = 0; i < m_pairs.x.size(); ++i)
            table.rows.push_back({cell_text(m_pairs.x[i]), cell_text(m_pairs.y[i])});
        return table;
    }

private:
    Counted m_of; ///< keeps the recording, which has the words of its signals
    Signal m_info, m_other;
    SignalPairs m_pairs;
    std::vector<ShownThreshold> m_thresholds, m_others;
    bool m_log;
};

class SpikesFigure final : public Figure {
public:
    explicit SpikesFigure(const FigureRequest& request)
        : m_recording(request.runs.front().recording)
        , m_range(steps_of(request, *m_recording)) {
        const auto& refreshes = m_recording->refreshes();
        for (size_t i = 0; i < refreshes.size(); ++i)
            if (refreshes[i].step >= m_range.first && refreshes[i].step <= m_range.last)
                m_refreshes.push_back(refreshes[i]);
        for (int64_t t = m_range.first; t <= m_range.last; ++t) {
            double sum = 0;
            for (const float part : m_recording->step(t).part_ms)
                sum += static_cast<double>(part);
            m_step_ms.push_back(sum);
        }
        if (m_refreshes.empty())
            throw Error("drawing a figure", "--panel spikes", "the run has no refresh at these steps");
    }

    double height(const FigurePen& pen, double width) const override {
        return std::min(width * 0.55, 160.0) + pen.text_line() * 2.4 + pen.small_line();
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        const auto colours = parts(pen);
        double y = place.y + draw_legend(pen, {place.x, place.y}, place.width, colours) + 3;
        PlotArea area;
        area.x_min = static_cast<double>(m_range.first) - 0.5;
        area.x_max = static_cast<double>(m_range.last) + 0.5;
        double top = *std::ranges::max_element(m_step_ms);
        for (const RefreshEvent& event : m_refreshes)
            top = std::max(top, event.teacher_ms + event.splice_ms + event.redraw_ms);
        area.y.min = 0;
        area.y.max = round_up_nice(std::max(top, 1e-3));
        const double high = place.bottom() - y - x_axis_height(pen);
        const double labels = y_labels_width(pen, area.y, high);
        area.rect = {place.x + labels + pen.style.text_pt * 1.4, y, 0, high};
        area.rect.width = place.right() - area.rect.x - 4;
        draw_plot_ground(pen, area);
        pen.canvas.push_clip(area.rect);
        std::vector<FigurePoint> line;
        for (size_t i = 0; i < m_step_ms.size(); ++i)
            line.push_back(
                area.at(static_cast<double>(m_range.first) + static_cast<double>(i), m_step_ms[i]));
        pen.canvas.polyline(line, {colours[3].colour, pen.style.line_pt * 0.7});
        const double bar = std::clamp(area.rect.width / static_cast<double>(m_range.count()), 1.2, 5.0);
        {
            const FigureGroup group(pen.canvas, "bars");
            for (const RefreshEvent& event : m_refreshes) {
                double sum = 0;
                const double values[] = {event.teacher_ms, event.splice_ms, event.redraw_ms};
                for (size_t i = 0; i < 3; ++i) {
                    const double y0 = area.y_of(sum), y1 = area.y_of(sum + values[i]);
                    pen.canvas.rectangle(
                        {area.x(static_cast<double>(event.step)) - bar / 2, y1, bar, y0 - y1},
                        colours[i].colour);
                    sum += values[i];
                }
            }
        }
        pen.canvas.pop_clip();
        pen.canvas.frame(area.rect, {pen.style.theme.plot_border, pen.style.axis_pt});
        draw_y_axis(pen, area, "ms", labels);
        draw_x_axis(pen, area, "step");
    }

    DataTable table() const override {
        DataTable table{{"step", "spliced", "teacher_ms", "splice_ms", "redraw_ms", "step_ms"}, {}};
        for (const RefreshEvent& event : m_refreshes)
            table.rows.push_back({fmt::format("{}", event.step), fmt::format("{}", event.spliced),
                                  cell_text(event.teacher_ms), cell_text(event.splice_ms),
                                  cell_text(event.redraw_ms),
                                  cell_text(m_step_ms[static_cast<size_t>(event.step - m_range.first)])});
        return table;
    }

private:
    [[nodiscard]] static std::array<LegendEntry, 4> parts(const FigurePen& pen) {
        const Theme& theme = pen.style.theme;
        return {{{"teacher pass", theme.accent | alpha_mask, LegendEntry::Mark::box},
                 {"splice", theme.origin_refresh | alpha_mask, LegendEntry::Mark::box},
                 {"redraw", theme.origin_skipped | alpha_mask, LegendEntry::Mark::box},
                 {"whole step", theme.text_muted, LegendEntry::Mark::line}}};
    }

    std::shared_ptr<const Recording> m_recording;
    StepRange m_range;
    std::vector<RefreshEvent> m_refreshes;
    std::vector<double> m_step_ms;
};

} // namespace

std::unique_ptr<Figure> make_distribution_figure(const FigureRequest& request) {
    const Counted of(request);
    if (of.other) return std::make_unique<PairsFigure>(request, of);
    return std::make_unique<DistributionFigure>(request, of);
}
std::unique_ptr<Figure> make_spikes_figure(const FigureRequest& request) {
    return std::make_unique<SpikesFigure>(request);
}

} // namespace refreshlab::ui
