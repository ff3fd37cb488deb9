#include "ui/figure/tables/marks_figure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace refreshlab::ui {

namespace {

/// Values over x: a plot for each facet and part, in lines that are as long as the figure is wide.
class CurvesFigure final : public MarksFigure {
public:
    CurvesFigure(const TablePlot& plot, TableMarks marks)
        : MarksFigure(plot, std::move(marks))
        , m_x(axis_of_x(m_marks, m_plot.x_log))
        , m_ticks(few_x_values(m_marks)) {
        for (const TableMarks::Facet& facet : m_marks.facets)
            for (const auto& part : facet.parts)
                for (const TableSeries& series : part)
                    m_most_marks = std::max(m_most_marks, series.marks.size());
    }

    double height(const FigurePen& pen, double width) const override {
        const double plot =
            std::min((width / static_cast<double>(columns(pen, width))) * 0.62, 130 * unit(pen));
        return head_height(pen, width) + static_cast<double>(rows(pen, width)) * (plot + fixed_height(pen)) +
               pen.text_line();
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        draw_head(pen, place);
        for (const OnePlot& one : plots(pen, place)) {
            const double left = one.area.rect.x;
            pen.heading(one.index, plot_count(), {left, one.top + pen.style.text_pt},
                        m_marks.facets[one.facet].words, one.area.rect.width);
            draw_plot(pen, one);
        }
    }

    std::vector<PlacedMark> places(const FigurePen& pen, const FigureRect& place) const override {
        std::vector<PlacedMark> placed;
        for (const OnePlot& one : plots(pen, place)) {
            const auto& all = m_marks.facets[one.facet].parts[one.part];
            for (size_t i = 0; i < all.size(); ++i) {
                const PlotArea area = area_of_series(pen, one, i);
                for (const TableMark& mark : all[i].marks)
                    if (has_place(area, mark))
                        placed.push_back({area.at(m_x.forward(mark.x), mark.value), mark.row});
            }
        }
        return placed;
    }

private:
    /// One of the plots, and where it is.
    struct OnePlot {
        size_t index = 0, facet = 0, part = 0;
        PlotArea area;
        double top = 0;    ///< of its heading
        double labels = 0; ///< width of the numbers beside it
        bool lowest = false, titled = false;
    };

    [[nodiscard]] size_t plot_count() const { return m_marks.facets.size() * m_plot.parts.size(); }

    [[nodiscard]] std::vector<OnePlot> plots(const FigurePen& pen, const FigureRect& place) const {
        const double top = place.y + head_height(pen, place.width);
        const size_t across = columns(pen, place.width), down = rows(pen, place.width);
        const double row = (place.bottom() - top - pen.text_line()) / static_cast<double>(down);
        const double high = row - fixed_height(pen);
        double labels = 0;
        for (const ValueAxis& axis : m_values)
            labels = std::max(labels, y_labels_width(pen, axis, high));
        const double wide = place.width / static_cast<double>(across),
                     left = labels + pen.style.text_pt * 1.4;
        std::vector<OnePlot> all;
        for (size_t i = 0; i < plot_count(); ++i) {
            OnePlot one;
            one.index = i;
            one.facet = i / m_plot.parts.size();
            one.part = i % m_plot.parts.size();
            const double x = place.x + static_cast<double>(i % across) * wide;
            one.top = top + static_cast<double>(i / across) * row;
            one.area.rect = {x + left, one.top + heading_height(pen), wide - left - gap, high};
            one.area.x_min = m_x.forward(m_x.min);
            one.area.x_max = m_x.forward(m_x.max);
            one.area.y = m_values[one.part];
            one.labels = labels;
            one.titled = m_plot.parts.size() > 1 || i % across == 0;
            one.lowest =
                i + across >= plot_count(); // the title of x stands below the lowest plot of each column
            all.push_back(one);
        }
        return all;
    }

    [[nodiscard]] bool has_place(const PlotArea& area, const TableMark& mark) const {
        return m_x.has_place(mark.x) && area.y.has_place(mark.value);
    }
    /// Intervals at one place stand beside each other.
    [[nodiscard]] PlotArea area_of_series(const FigurePen& pen, const OnePlot& one, size_t i) const {
        const double apart = 2.2 * unit(pen);
        const size_t series = m_marks.facets[one.facet].parts[one.part].size();
        const bool stair =
            m_plot.parts[one.part].frontier != TablePlot::Frontier::none; // goes through its marks
        PlotArea aside = one.area;
        if (has_marks() && series <= 5 && !stair)
            aside.rect.x += apart * (static_cast<double>(i) - 0.5 * static_cast<double>(series - 1));
        return aside;
    }

    [[nodiscard]] size_t columns(const FigurePen& pen, double width) const {
        const size_t count = m_marks.facets.size() * m_plot.parts.size();
        const auto fit = static_cast<size_t>(std::max(1.0, width / (150 * unit(pen))));
        const size_t parts = m_plot.parts.size();
        if (parts > 1 && fit >= parts) return fit / parts * parts < count ? fit / parts * parts : count;
        return std::min(fit, count);
    }
    [[nodiscard]] size_t rows(const FigurePen& pen, double width) const {
        const size_t count = m_marks.facets.size() * m_plot.parts.size(), across = columns(pen, width);
        return (count + across - 1) / across;
    }
    [[nodiscard]] bool has_headings() const {
        return m_marks.facets.size() * m_plot.parts.size() > 1 || !m_marks.facets.front().words.empty();
    }
    [[nodiscard]] double heading_height(const FigurePen& pen) const {
        return has_headings() ? pen.text_line() + 1 : 2;
    }
    /// Of a row of plots, without the plots: heading and ticks.
    [[nodiscard]] double fixed_height(const FigurePen& pen) const {
        return heading_height(pen) + pen.small_line() + 7;
    }
    [[nodiscard]] bool by_value() const { return m_marks.series.size() == 1; }
    [[nodiscard]] Colour colour_of_series(const FigurePen& pen, const TableSeries& series) const {
        return colour_of(pen, by_value() ? series.value : series.series);
    }
    /// How often the colours were used up before the series, or which of several values it is of: dashes, or forms of points, tell them apart.
    [[nodiscard]] size_t round_of(const FigurePen& pen, const TableSeries& series) const {
        return by_value() ? 0 : series.series / pen.style.runs.size() + series.value;
    }
    [[nodiscard]] double dash_of(const FigurePen& pen, const TableSeries& series) const {
        return 1.5 * static_cast<double>(round_of(pen, series));
    }
    /// A point of a series: a disc, a diamond, a triangle.
    static void draw_point(const FigurePen& pen, FigurePoint at, double radius, Colour colour, size_t round) {
        const double wide = radius * 1.4;
        if (round == 0) return draw_dot(pen, at, radius, colour);
        if (round % 2 == 1)
            pen.canvas.polygon(
                std::array<FigurePoint, 4>{
                    {{at.x, at.y - wide}, {at.x + wide, at.y}, {at.x, at.y + wide}, {at.x - wide, at.y}}},
                colour);
        else
            pen.canvas.polygon(std::array<FigurePoint, 3>{{{at.x, at.y - wide},
                                                           {at.x + wide, at.y + wide * 0.8},
                                                           {at.x - wide, at.y + wide * 0.8}}},
                               colour);
    }

    [[nodiscard]] std::vector<LegendEntry> legend(const FigurePen& pen) const override {
        std::vector<LegendEntry> entries;
        const auto add = [&](std::string words, const TableSeries& series) {
            const bool points = m_plot.kind == TablePlot::Kind::points;
            const size_t round = round_of(pen, series);
            const auto mark = points      ? LegendEntry::Mark::box
                              : round > 0 ? LegendEntry::Mark::dashed
                                          : LegendEntry::Mark::line;
            const Colour colour = colour_of_series(pen, series);
            LegendEntry& entry = entries.emplace_back(LegendEntry{std::move(words), colour, mark});
            if (!points || m_marks.series.size() <= pen.style.runs.size()) return;
            entry.mark = LegendEntry::Mark::sample;
            entry.draw_sample = [colour, round](const FigurePen& of, const FigureRect& box) {
                draw_point(of, {box.x + box.width / 2, box.y + box.height / 2}, box.height * 0.36, colour,
                           round);
            };
        };
        if (!by_value()) {
            for (size_t s = 0; s < m_marks.series.size(); ++s)
                add(m_marks.series[s], {s, 0, {}});
            for (const TablePlot::Part& part : m_plot.parts)
                for (size_t v = 1; v < part.values.size(); ++v)
                    add(shown_name(part.values[v]) + " (dashed)", {0, v, {}});
            return entries;
        }
        for (const TablePlot::Part& part : m_plot.parts)
            for (size_t v = 0; part.values.size() > 1 && v < part.values.size(); ++v)
                if (std::ranges::find(entries, shown_name(part.values[v]), &LegendEntry::words) ==
                    entries.end())
                    add(shown_name(part.values[v]), {0, v, {}});
        return entries;
    }

    void draw_plot(const FigurePen& pen, const OnePlot& one) const {
        const PlotArea& area = one.area;
        const TablePlot::Part& part = m_plot.parts[one.part];
        draw_plot_ground(pen, area);
        if (part.mark && area.y.has_place(*part.mark))
            pen.canvas.line({area.rect.x, area.y_of(*part.mark)}, {area.rect.right(), area.y_of(*part.mark)},
                            {pen.style.theme.text_muted, pen.style.axis_pt, 2});
        pen.canvas.push_clip(area.rect);
        const auto& all = m_marks.facets[one.facet].parts[one.part];
        if (part.frontier != TablePlot::Frontier::none) draw_frontier(pen, area, all, part.frontier);
        for (size_t i = 0; i < all.size(); ++i)
            draw_series(pen, area_of_series(pen, one, i), all[i]);
        pen.canvas.pop_clip();
        pen.canvas.frame(area.rect, {pen.style.theme.plot_border, pen.style.axis_pt});
        draw_y_axis(pen, area, one.titled ? part.title : "", one.labels);
        const std::string& title = m_plot.x_title.empty() ? m_plot.x : m_plot.x_title;
        draw_scaled_x_axis(pen, area, m_x, one.lowest ? title : "", true, m_ticks);
    }

    /// A stair: nothing between two methods is promised, so the better value begins at the x that has it.
    void draw_frontier(const FigurePen& pen, const PlotArea& area, const std::vector<TableSeries>& part,
                       TablePlot::Frontier frontier) const {
        const FigureGroup group(pen.canvas, "frontier");
        std::vector<FigurePoint> stair;
        for (const TableMark& mark : frontier_marks(part, frontier)) {
            if (!has_place(area, mark)) continue;
            const FigurePoint at = area.at(m_x.forward(mark.x), mark.value);
            if (!stair.empty()) stair.push_back({at.x, stair.back().y});
            stair.push_back(at);
        }
        if (stair.empty()) return;
        stair.push_back({area.rect.right(), stair.back().y});
        pen.canvas.polyline(stair, {pen.style.theme.text_muted, pen.style.line_pt, 0});
    }

    void draw_series(const FigurePen& pen, const PlotArea& area, const TableSeries& series) const {
        const FigureGroup group(pen.canvas, "curve");
        const Colour colour = colour_of_series(pen, series);
        std::vector<FigurePoint> line, lows, highs;
        for (const TableMark& mark : series.marks) {
            if (!has_place(area, mark)) continue;
            const auto at = [&](double value) { return area.at(m_x.forward(mark.x), value); };
            line.push_back(at(mark.value));
            if (!std::isfinite(mark.low) || !std::isfinite(mark.high)) continue;
            const auto end = [&](double value) { return at(std::max(value, area.y.min)); };
            lows.push_back(end(mark.low));
            highs.push_back(end(mark.high));
        }
        if (has_marks()) {
            for (size_t i = 0; i < lows.size(); ++i)
                draw_whisker(pen, lows[i], highs[i], false, colour);
        } else if (lows.size() > 1) {
            std::vector<FigurePoint> band = lows;
            band.insert(band.end(), highs.rbegin(), highs.rend());
            pen.canvas.polygon(band, with_alpha(colour, 0.18F));
        }
        if (m_plot.kind == TablePlot::Kind::curves)
            pen.canvas.polyline(thinned(line), {colour, pen.style.line_pt, dash_of(pen, series)});
        if (has_marks())
            for (const FigurePoint& at : line)
                draw_point(pen, at, dot(pen), colour,
                           m_plot.kind == TablePlot::Kind::points ? round_of(pen, series) : 0);
    }

    /// Of more points than a line can show: of each column of half a point the first, lowest, highest and last, in their order.
    static std::vector<FigurePoint> thinned(const std::vector<FigurePoint>& line) {
        constexpr double column = 0.5;
        constexpr size_t of_a_column = 4;
        if (line.size() < 2 ||
            static_cast<double>(line.size()) < of_a_column * (line.back().x - line.front().x) / column)
            return line;
        std::vector<FigurePoint> thin;
        for (size_t first = 0; first < line.size();) {
            size_t end = first, low = first, high = first;
            for (;
                 end < line.size() && std::floor(line[end].x / column) == std::floor(line[first].x / column);
                 ++end) {
                if (line[end].y < line[low].y) low = end;
                if (line[end].y > line[high].y) high = end;
            }
            std::array<size_t, of_a_column> kept{first, low, high, end - 1};
            std::ranges::sort(kept);
            for (size_t i = 0; i < kept.size(); ++i)
                if (i == 0 || kept[i] != kept[i - 1]) thin.push_back(line[kept[i]]);
            first = end;
        }
        return thin;
    }

    /// Dots and single intervals; where they are many, lines and bands.
    [[nodiscard]] bool has_marks() const {
        constexpr size_t few = 14;
        return m_most_marks <= few || m_plot.kind == TablePlot::Kind::points;
    }

    ValueAxis m_x;
    std::vector<double> m_ticks;
    size_t m_most_marks = 0; ///< of one of the series
};

} // namespace

std::unique_ptr<TableFigure> make_curves_figure(const TablePlot& plot, TableMarks marks) {
    return std::make_unique<CurvesFigure>(plot, std::move(marks));
}

} // namespace refreshlab::ui
