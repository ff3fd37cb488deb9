#include "ui/figure/tables/marks_figure.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace refreshlab::ui {

namespace {

using Align = TextStyle::Align;

/// A line for each of the series; parts beside each other, facets below each other.
class DotsFigure final : public MarksFigure {
public:
    using MarksFigure::MarksFigure;

    double height(const FigurePen& pen, double width) const override {
        return head_height(pen, width) + fixed_height(pen) +
               static_cast<double>(lines()) * pen.small_line() * 1.25;
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        draw_head(pen, place);
        const double names = names_width(pen, place.width);
        for (const Rows& rows : facets(pen, place)) {
            const TableMarks::Facet& facet = m_marks.facets[rows.facet];
            if (has_headings())
                pen.heading(rows.facet, m_marks.facets.size(),
                            {place.x, rows.y - pen.text_line() - 1 + pen.style.text_pt}, facet.words,
                            place.width);
            draw_names(pen, facet, {place.x, rows.y}, names, rows.line);
            for (size_t p = 0; p < m_plot.parts.size(); ++p)
                draw_part(pen, facet, p, part_of(rows, p), rows.facet + 1 == m_marks.facets.size());
        }
    }

    std::vector<PlacedMark> places(const FigurePen& pen, const FigureRect& place) const override {
        std::vector<PlacedMark> placed;
        for (const Rows& rows : facets(pen, place)) {
            const TableMarks::Facet& facet = m_marks.facets[rows.facet];
            for (size_t p = 0; p < m_plot.parts.size(); ++p) {
                const ValueAxis& axis = m_values[p];
                const PlotArea area = area_of(axis, part_of(rows, p));
                for (const TableSeries& series : facet.parts[p])
                    for (const TableMark& mark : series.marks)
                        if (axis.has_place(mark.value))
                            placed.push_back({{area.x(axis.forward(mark.value)),
                                               y_of(facet, series, m_plot.parts[p].values.size(), area.rect)},
                                              mark.row});
            }
        }
        return placed;
    }

private:
    static constexpr double facet_gap = 5;

    /// The lines of a facet, and where they are.
    struct Rows {
        size_t facet = 0;
        double x = 0, y = 0; ///< of the first part
        double wide = 0;     ///< of a part
        double line = 0;     ///< height of a line
        double high = 0;     ///< of all of them
    };
    [[nodiscard]] std::vector<Rows> facets(const FigurePen& pen, const FigureRect& place) const {
        const double top = place.y + head_height(pen, place.width), names = names_width(pen, place.width);
        const auto columns = static_cast<double>(m_plot.parts.size());
        Rows rows;
        rows.x = place.x + names;
        rows.y = top;
        rows.wide = (place.width - names - 4 - gap * (columns - 1)) / columns;
        rows.line = (place.bottom() - top - fixed_height(pen)) / static_cast<double>(lines());
        std::vector<Rows> all;
        for (rows.facet = 0; rows.facet < m_marks.facets.size(); ++rows.facet) {
            if (has_headings()) rows.y += pen.text_line() + 1;
            rows.high = rows.line * static_cast<double>(m_marks.facets[rows.facet].series.size());
            all.push_back(rows);
            rows.y += rows.high + facet_gap;
        }
        return all;
    }
    [[nodiscard]] static FigureRect part_of(const Rows& rows, size_t part) {
        return {rows.x + static_cast<double>(part) * (rows.wide + gap), rows.y, rows.wide, rows.high};
    }
    [[nodiscard]] static PlotArea area_of(const ValueAxis& axis, const FigureRect& rect) {
        PlotArea area;
        area.rect = rect;
        area.x_min = axis.forward(axis.min);
        area.x_max = axis.forward(axis.max);
        return area;
    }
    /// Values of one line stand a little below each other, so that their intervals can be told apart.
    [[nodiscard]] static double y_of(const TableMarks::Facet& facet, const TableSeries& series, size_t values,
                                     const FigureRect& rect) {
        const auto at = std::ranges::find(facet.series, series.series) - facet.series.begin();
        const double line = rect.height / static_cast<double>(facet.series.size());
        const double share = (static_cast<double>(series.value) + 0.5) / static_cast<double>(values) - 0.5;
        return rect.y + (static_cast<double>(at) + 0.5) * line +
               share * std::min(line * 0.7, static_cast<double>(values) * 2.5);
    }

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
        const double least_plot = 85 * unit(pen); // room for three ticks
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
        const PlotArea area = area_of(axis, rect);
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
        for (const TableSeries& series : facet.parts[p])
            draw_series(pen, area, axis, series, y_of(facet, series, m_plot.parts[p].values.size(), rect));
        pen.canvas.frame(rect, {pen.style.theme.plot_border, pen.style.axis_pt});
        draw_scaled_x_axis(pen, area, axis, last ? m_plot.parts[p].title : "", last);
    }

    static void draw_series(const FigurePen& pen, const PlotArea& area, const ValueAxis& axis,
                            const TableSeries& series, double y) {
        const Colour colour = colour_of(pen, series.value);
        for (const TableMark& mark : series.marks) {
            if (!axis.has_place(mark.value)) continue;
            const auto x = [&](double value) {
                return std::clamp(area.x(axis.forward(value)), area.rect.x, area.rect.right());
            };
            if (std::isfinite(mark.low) && std::isfinite(mark.high))
                draw_whisker(pen, {x(mark.low), y}, {x(mark.high), y}, true, colour);
            draw_dot(pen, {x(mark.value), y}, dot(pen), colour);
        }
    }
};

} // namespace

std::unique_ptr<TableFigure> make_dots_figure(const TablePlot& plot, TableMarks marks) {
    return std::make_unique<DotsFigure>(plot, std::move(marks));
}

} // namespace refreshlab::ui
