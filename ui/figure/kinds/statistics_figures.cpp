// The distribution of a signal, and what refreshes cost.
#include "engine/base/error.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/figure/kinds/kinds.h"
#include "ui/scene/policy/live_changes.h"
#include "ui/scene/series/distribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace refreshlab::ui {

namespace {

class DistributionFigure final : public Figure {
public:
    explicit DistributionFigure(const FigureRequest& request)
        : m_recording(request.runs.front().recording)
        , m_range(steps_of(request, *m_recording)) {
        const size_t id = require_signal(m_recording->signals(), request.signal, "--signal");
        m_info = m_recording->signals()[id];
        m_statistics = signal_statistics(*m_recording, m_recording->steps(), id, m_range.first, m_range.last);
        if (m_statistics.sorted.empty())
            throw Error("drawing a figure", "--signal",
                        fmt::format("{} was not measured at these steps", request.signal));
        LiveChanges changes;
        changes.update(*m_recording);
        for (const ThresholdSpan& span : threshold_stair(changes, m_recording->steps(), m_info.name, {}))
            if (span.last >= m_range.first && span.first <= m_range.last &&
                std::ranges::find(m_thresholds, span.value) == m_thresholds.end())
                m_thresholds.push_back(span.value);
    }

    double height(const FigurePen& pen, double width) const override {
        return std::min(width * 0.6, 170.0) + pen.text_line() * 2.4 + pen.small_line();
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        const Histogram bins = histogram(
            m_statistics.sorted, static_cast<int>(std::max(10.0, place.width / 6)), m_info.unit == "tokens");
        PlotArea area;
        area.x_min = std::min(bins.low, m_thresholds.empty() ? bins.low : std::ranges::min(m_thresholds));
        area.x_max =
            std::max(bins.high(), m_thresholds.empty() ? bins.high() : std::ranges::max(m_thresholds));
        const double wide = (area.x_max - area.x_min) * 0.02;
        area.x_min -= wide;
        area.x_max += wide;
        area.y.min = 0;
        area.y.max = count_top(std::ranges::max(bins.counts), false);
        const double high = place.height - pen.text_line() * 2.2 - pen.small_line();
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
        {
            const FigureGroup group(pen.canvas, "bars");
            for (size_t i = 0; i < bins.counts.size(); ++i) {
                if (bins.counts[i] <= 0) continue;
                const double x0 = area.x(bins.low + static_cast<double>(i) * bins.width),
                             x1 = area.x(bins.low + static_cast<double>(i + 1) * bins.width);
                const double y = area.y_of(bins.counts[i]);
                pen.canvas.rectangle({x0, y, x1 - x0, area.rect.bottom() - y},
                                     pen.style.theme.signal(m_info.name));
            }
        }
        for (const double threshold : m_thresholds)
            pen.canvas.line(area.at(threshold, area.y.min), area.at(threshold, area.y.max),
                            {pen.style.theme.text_muted, pen.style.line_pt, 2});
        pen.canvas.frame(area.rect, {pen.style.theme.plot_border, pen.style.axis_pt});
        draw_y_axis(pen, area, "steps", labels);
        draw_value_x_axis(pen, area, with_unit(m_info.label, m_info.unit));
    }

    DataTable table() const override {
        DataTable table{{std::string(m_info.name)}, {}};
        for (const double value : m_statistics.sorted)
            table.rows.push_back({cell_text(value)});
        return table;
    }

private:
    std::shared_ptr<const Recording> m_recording;
    StepRange m_range;
    Signal m_info;
    SignalStatistics m_statistics;
    std::vector<double> m_thresholds;
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
        const double high = place.bottom() - y - pen.text_line() * 2.2;
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
    return std::make_unique<DistributionFigure>(request);
}
std::unique_ptr<Figure> make_spikes_figure(const FigureRequest& request) {
    return std::make_unique<SpikesFigure>(request);
}

} // namespace refreshlab::ui
