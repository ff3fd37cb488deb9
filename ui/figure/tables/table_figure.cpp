#include "ui/figure/tables/table_figure.h"

#include "ui/figure/tables/table_axes.h"
#include "ui/figure/tables/table_marks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace refreshlab::ui {

namespace {

using Align = TextStyle::Align;
constexpr double dot = 1.7, gap = 12; // points: radius of a dot, room between parts

/// A column's name for people.
std::string shown_name(std::string column) {
    std::ranges::replace(column, '_', ' ');
    return column;
}

/// What both kinds share: the marks, the axes of all facets, colours.
class TableFigure : public Figure {
public:
    TableFigure(const TablePlot& plot, TableMarks marks)
        : m_plot(plot)
        , m_marks(std::move(marks)) {
        for (size_t p = 0; p < m_plot.parts.size(); ++p)
            m_values.push_back(axis_of_values(m_marks, p, m_plot.parts[p].log, m_plot.parts[p].mark));
    }

    DataTable table() const override { return m_marks.table; }

protected:
    /// Above the rest: what the figure is of, and the legend. \return their height
    double draw_head(const FigurePen& pen, const FigureRect& place) const {
        double y = 0;
        if (!m_plot.title.empty()) {
            for (const std::string& line : title_lines(pen, place.width)) {
                pen.canvas.text({place.x, place.y + y + pen.style.text_pt}, line, pen.text());
                y += pen.text_line();
            }
            y += 2;
        }
        const auto entries = legend(pen);
        if (entries.size() > 1) y += draw_legend(pen, {place.x, place.y + y}, place.width, entries) + 3;
        return y;
    }
    [[nodiscard]] double head_height(const FigurePen& pen, double width) const {
        const auto entries = legend(pen);
        const double title = m_plot.title.empty()
                                 ? 0
                                 : static_cast<double>(title_lines(pen, width).size()) * pen.text_line() + 2;
        return title + (entries.size() > 1 ? legend_height(pen, width, entries) + 3 : 0);
    }

    /// A value's interval as a line with ends. \param across  along x; else along y
    static void draw_whisker(const FigurePen& pen, FigurePoint low, FigurePoint high, bool across,
                             Colour colour) {
        const Stroke stroke{colour, pen.style.line_pt * 0.8};
        constexpr double end = 1.4;
        const double dx = across ? 0 : end, dy = across ? end : 0;
        pen.canvas.line(low, high, stroke);
        for (const FigurePoint& at : {low, high})
            pen.canvas.line({at.x - dx, at.y - dy}, {at.x + dx, at.y + dy}, stroke);
    }

    [[nodiscard]] virtual std::vector<LegendEntry> legend(const FigurePen& pen) const = 0;
    [[nodiscard]] static Colour colour_of(const FigurePen& pen, size_t index) {
        return pen.style.runs[index % pen.style.runs.size()];
    }

    TablePlot m_plot;
    TableMarks m_marks;
    std::vector<ValueAxis> m_values; ///< by part

private:
    [[nodiscard]] std::vector<std::string> title_lines(const FigurePen& pen, double width) const {
        std::vector<std::string> lines(1);
        std::string_view rest = m_plot.title;
        while (!rest.empty()) {
            const size_t space = rest.find(' ');
            const std::string word(rest.substr(0, space));
            rest.remove_prefix(space == std::string_view::npos ? rest.size() : space + 1);
            const std::string longer = lines.back().empty() ? word : lines.back() + " " + word;
            if (!lines.back().empty() && pen.canvas.width_of(longer, pen.text()) > width)
                lines.push_back(word);
            else
                lines.back() = longer;
        }
        return lines;
    }
};

/// A line for each of the series; parts beside each other, facets below each other.
class DotsFigure final : public TableFigure {
public:
    using TableFigure::TableFigure;

    double height(const FigurePen& pen, double width) const override {
        return head_height(pen, width) + fixed_height(pen) +
               static_cast<double>(lines()) * pen.small_line() * 1.25;
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        double y = place.y + draw_head(pen, place);
        const double names = names_width(pen, place.width);
        const double line = (place.bottom() - y - fixed_height(pen)) / static_cast<double>(lines());
        const auto columns = static_cast<double>(m_plot.parts.size());
        const double wide = (place.width - names - 4 - gap * (columns - 1)) / columns;
        for (size_t f = 0; f < m_marks.facets.size(); ++f) {
            const TableMarks::Facet& facet = m_marks.facets[f];
            if (has_headings()) {
                pen.heading(f, m_marks.facets.size(), {place.x, y + pen.style.text_pt}, facet.words,
                            place.width);
                y += pen.text_line() + 1;
            }
            const double high = line * static_cast<double>(facet.series.size());
            const bool last = f + 1 == m_marks.facets.size();
            draw_names(pen, facet, {place.x, y}, names, line);
            for (size_t p = 0; p < m_plot.parts.size(); ++p)
                draw_part(pen, facet, p,
                          {place.x + names + static_cast<double>(p) * (wide + gap), y, wide, high}, last);
            y += high + facet_gap;
        }
    }

private:
    static constexpr double facet_gap = 5;

    [[nodiscard]] bool has_headings() const {
        return m_marks.facets.size() > 1 || !m_marks.facets.front().words.empty();
    }
    [[nodiscard]] size_t lines() const {
        size_t lines = 0;
        for (const TableMarks::Facet& facet : m_marks.facets)
            lines += facet.series.size();
        return lines;
    }
    [[nodiscard]] double fixed_height(const FigurePen& pen) const {
        const auto facets = static_cast<double>(m_marks.facets.size());
        return facets * (facet_gap + (has_headings() ? pen.text_line() + 1 : 0)) + 2.2 * pen.text_line() + 4;
    }
    [[nodiscard]] double names_width(const FigurePen& pen, double width) const {
        double names = 0;
        for (const std::string& name : m_marks.series)
            names = std::max(names, pen.canvas.width_of(name, pen.small()));
        // Long names get what the plots can spare, not only their share.
        constexpr double least_plot = 85; // points: room for three ticks
        const double spare = width - static_cast<double>(m_plot.parts.size()) * (least_plot + gap) - 8;
        return std::min(names, std::max(0.42 * width, spare)) + 4;
    }
    /// Colours are of the values: the series have names beside them.
    [[nodiscard]] std::vector<LegendEntry> legend(const FigurePen& pen) const override {
        std::vector<LegendEntry> entries;
        for (const TablePlot::Part& part : m_plot.parts)
            for (size_t v = 0; part.values.size() > 1 && v < part.values.size(); ++v)
                if (std::ranges::find(entries, shown_name(part.values[v]), &LegendEntry::words) ==
                    entries.end())
                    entries.push_back(
                        {shown_name(part.values[v]), colour_of(pen, v), LegendEntry::Mark::box});
        return entries;
    }

    void draw_names(const FigurePen& pen, const TableMarks::Facet& facet, FigurePoint at, double width,
                    double line) const {
        const FigureGroup group(pen.canvas, "names");
        for (size_t i = 0; i < facet.series.size(); ++i) {
            const std::string name = pen.fitted(m_marks.series[facet.series[i]], pen.small(), width - 4);
            const double base = at.y + (static_cast<double>(i) + 0.5) * line + pen.style.small_pt * 0.35;
            pen.canvas.text({at.x + width - 4, base}, name, pen.small(Align::right));
        }
    }

    void draw_part(const FigurePen& pen, const TableMarks::Facet& facet, size_t p, const FigureRect& rect,
                   bool last) const {
        const ValueAxis& axis = m_values[p];
        PlotArea area;
        area.rect = rect;
        area.x_min = axis.forward(axis.min);
        area.x_max = axis.forward(axis.max);
        const double line = rect.height / static_cast<double>(facet.series.size());
        pen.canvas.rectangle(rect, pen.style.theme.plot_background);
        for (size_t i = 0; i < facet.series.size(); ++i) {
            const double y = rect.y + (static_cast<double>(i) + 0.5) * line;
            pen.canvas.line({rect.x, y}, {rect.right(), y}, {pen.style.theme.grid, pen.style.axis_pt});
        }
        if (const auto mark = m_plot.parts[p].mark; mark && axis.has_place(*mark))
            pen.canvas.line({area.x(axis.forward(*mark)), rect.y},
                            {area.x(axis.forward(*mark)), rect.bottom()},
                            {pen.style.theme.text_muted, pen.style.axis_pt, 2});
        const FigureGroup group(pen.canvas, "dots");
        for (const TableSeries& series : facet.parts[p]) {
            const auto at = std::ranges::find(facet.series, series.series) - facet.series.begin();
            draw_series(pen, area, axis, series, m_plot.parts[p].values.size(),
                        rect.y + (static_cast<double>(at) + 0.5) * line, line);
        }
        pen.canvas.frame(rect, {pen.style.theme.plot_border, pen.style.axis_pt});
        draw_scaled_x_axis(pen, area, axis, last ? m_plot.parts[p].title : "", last);
    }

    /// Values of one line stand a little below each other, so that their intervals can be told apart.
    static void draw_series(const FigurePen& pen, const PlotArea& area, const ValueAxis& axis,
                            const TableSeries& series, size_t values, double middle, double line) {
        const double share = (static_cast<double>(series.value) + 0.5) / static_cast<double>(values) - 0.5;
        const double y = middle + share * std::min(line * 0.7, static_cast<double>(values) * 2.5);
        const Colour colour = colour_of(pen, series.value);
        for (const TableMark& mark : series.marks) {
            if (!axis.has_place(mark.value)) continue;
            const auto x = [&](double value) {
                return std::clamp(area.x(axis.forward(value)), area.rect.x, area.rect.right());
            };
            if (std::isfinite(mark.low) && std::isfinite(mark.high))
                draw_whisker(pen, {x(mark.low), y}, {x(mark.high), y}, true, colour);
            draw_dot(pen, {x(mark.value), y}, dot, colour);
        }
    }
};

/// Values over x: a plot for each facet and part, in lines that are as long as the figure is wide.
class CurvesFigure final : public TableFigure {
public:
    CurvesFigure(const TablePlot& plot, TableMarks marks)
        : TableFigure(plot, std::move(marks))
        , m_x(axis_of_x(m_marks, m_plot.x_log))
        , m_ticks(few_x_values(m_marks)) {
        for (const TableMarks::Facet& facet : m_marks.facets)
            for (const auto& part : facet.parts)
                for (const TableSeries& series : part)
                    m_most_marks = std::max(m_most_marks, series.marks.size());
    }

    double height(const FigurePen& pen, double width) const override {
        const double plot = std::min((width / static_cast<double>(columns(width))) * 0.62, 130.0);
        return head_height(pen, width) + static_cast<double>(rows(width)) * (plot + fixed_height(pen)) +
               pen.text_line();
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        const double top = place.y + draw_head(pen, place);
        const size_t across = columns(place.width), down = rows(place.width);
        const double row = (place.bottom() - top - pen.text_line()) / static_cast<double>(down);
        const double high = row - fixed_height(pen);
        double labels = 0;
        for (const ValueAxis& axis : m_values)
            labels = std::max(labels, y_labels_width(pen, axis, high));
        const double wide = place.width / static_cast<double>(across),
                     left = labels + pen.style.text_pt * 1.4;
        const size_t count = m_marks.facets.size() * m_plot.parts.size();
        for (size_t i = 0; i < count; ++i) {
            const size_t f = i / m_plot.parts.size(), p = i % m_plot.parts.size();
            const double x = place.x + static_cast<double>(i % across) * wide,
                         y = top + static_cast<double>(i / across) * row;
            pen.heading(i, count, {x + left, y + pen.style.text_pt}, m_marks.facets[f].words,
                        wide - left - gap);
            PlotArea area;
            area.rect = {x + left, y + heading_height(pen), wide - left - gap, high};
            area.x_min = m_x.forward(m_x.min);
            area.x_max = m_x.forward(m_x.max);
            area.y = m_values[p];
            // The title of x stands below the lowest plot of each column.
            const bool titled = m_plot.parts.size() > 1 || i % across == 0;
            draw_plot(pen, area, f, p, labels, i + across >= count, titled);
        }
    }

private:
    [[nodiscard]] size_t columns(double width) const {
        const size_t count = m_marks.facets.size() * m_plot.parts.size();
        const auto fit = static_cast<size_t>(std::max(1.0, width / 150));
        const size_t parts = m_plot.parts.size();
        if (parts > 1 && fit >= parts) return fit / parts * parts < count ? fit / parts * parts : count;
        return std::min(fit, count);
    }
    [[nodiscard]] size_t rows(double width) const {
        const size_t count = m_marks.facets.size() * m_plot.parts.size(), across = columns(width);
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
    /// Where the colours are used up, or one of the series has several values, dashes tell them apart.
    [[nodiscard]] double dash_of(const FigurePen& pen, const TableSeries& series) const {
        const size_t round = by_value() ? 0 : series.series / pen.style.runs.size() + series.value;
        return round == 0 ? 0 : 1.5 * static_cast<double>(round);
    }

    [[nodiscard]] std::vector<LegendEntry> legend(const FigurePen& pen) const override {
        std::vector<LegendEntry> entries;
        const auto add = [&](std::string words, const TableSeries& series) {
            const bool dashed = dash_of(pen, series) > 0;
            const auto mark = m_plot.kind == TablePlot::Kind::points ? LegendEntry::Mark::box
                              : dashed                               ? LegendEntry::Mark::dashed
                                                                     : LegendEntry::Mark::line;
            entries.push_back({std::move(words), colour_of_series(pen, series), mark});
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

    void draw_plot(const FigurePen& pen, const PlotArea& area, size_t f, size_t p, double labels, bool lowest,
                   bool titled) const {
        draw_plot_ground(pen, area);
        if (const auto mark = m_plot.parts[p].mark; mark && area.y.has_place(*mark))
            pen.canvas.line({area.rect.x, area.y_of(*mark)}, {area.rect.right(), area.y_of(*mark)},
                            {pen.style.theme.text_muted, pen.style.axis_pt, 2});
        pen.canvas.push_clip(area.rect);
        const auto& all = m_marks.facets[f].parts[p];
        for (size_t i = 0; i < all.size(); ++i) {
            // Intervals at one place stand beside each other.
            constexpr double apart = 2.2;
            PlotArea aside = area;
            if (has_marks() && all.size() <= 5)
                aside.rect.x += apart * (static_cast<double>(i) - 0.5 * static_cast<double>(all.size() - 1));
            draw_series(pen, aside, all[i]);
        }
        pen.canvas.pop_clip();
        pen.canvas.frame(area.rect, {pen.style.theme.plot_border, pen.style.axis_pt});
        draw_y_axis(pen, area, titled ? m_plot.parts[p].title : "", labels);
        const std::string& title = m_plot.x_title.empty() ? m_plot.x : m_plot.x_title;
        draw_scaled_x_axis(pen, area, m_x, lowest ? title : "", true, m_ticks);
    }

    void draw_series(const FigurePen& pen, const PlotArea& area, const TableSeries& series) const {
        const FigureGroup group(pen.canvas, "curve");
        const Colour colour = colour_of_series(pen, series);
        std::vector<FigurePoint> line, lows, highs;
        for (const TableMark& mark : series.marks) {
            if (!m_x.has_place(mark.x) || !area.y.has_place(mark.value)) continue;
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
            pen.canvas.polyline(line, {colour, pen.style.line_pt, dash_of(pen, series)});
        if (has_marks())
            for (const FigurePoint& at : line)
                draw_dot(pen, at, dot, colour);
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

std::unique_ptr<Figure> make_table_figure(const TablePlot& plot, const DataTable& table,
                                          const std::string& what) {
    TableMarks marks = table_marks(plot, table, what);
    if (plot.kind == TablePlot::Kind::dots) return std::make_unique<DotsFigure>(plot, std::move(marks));
    return std::make_unique<CurvesFigure>(plot, std::move(marks));
}

} // namespace refreshlab::ui
