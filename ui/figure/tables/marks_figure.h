#pragma once

// Shared by the two kinds of figures of tables.
#include "ui/figure/tables/table_axes.h"
#include "ui/figure/tables/table_figure.h"
#include "ui/figure/tables/table_marks.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refreshlab::ui {

/// A column's name for people.
[[nodiscard]] inline std::string shown_name(std::string column) {
    std::ranges::replace(column, '_', ' ');
    return column;
}

/// What both kinds share: the marks, the axes of all facets, colours.
class MarksFigure : public TableFigure {
public:
    MarksFigure(const TablePlot& plot, TableMarks marks)
        : m_plot(plot)
        , m_marks(std::move(marks)) {
        for (size_t p = 0; p < m_plot.parts.size(); ++p)
            m_values.push_back(axis_of_values(m_marks, p, m_plot.parts[p].log, m_plot.parts[p].mark));
    }

    DataTable table() const override { return m_marks.table; }

protected:
    static constexpr double gap = 12; ///< room between parts, points

    /// A point on paper; on the screen as much of the text's size.
    [[nodiscard]] static double unit(const FigurePen& pen) {
        return pen.style.on_screen ? pen.style.text_pt / 8 : 1;
    }
    [[nodiscard]] static double dot(const FigurePen& pen) { return 1.7 * unit(pen); } ///< radius
    /// Above the rest: what the figure is of, and the legend; head_height() high.
    void draw_head(const FigurePen& pen, const FigureRect& place) const {
        double y = 0;
        if (!m_plot.title.empty()) {
            for (const std::string& line : title_lines(pen, place.width)) {
                pen.canvas.text({place.x, place.y + y + pen.style.text_pt}, line, pen.text());
                y += pen.text_line();
            }
            y += 2;
        }
        const auto entries = legend(pen);
        if (entries.size() > 1) draw_legend(pen, {place.x, place.y + y}, place.width, entries);
    }
    [[nodiscard]] double head_height(const FigurePen& pen, double width) const {
        const auto entries = legend(pen);
        const double title = m_plot.title.empty()
                                 ? 0
                                 : static_cast<double>(title_lines(pen, width).size()) * pen.text_line() + 2;
        return title + (entries.size() > 1 ? legend_height(pen, width, entries) + 3 * unit(pen) : 0);
    }

    /// A value's interval as a line with ends. \param across  along x; else along y
    static void draw_whisker(const FigurePen& pen, FigurePoint low, FigurePoint high, bool across,
                             Colour colour) {
        const Stroke stroke{colour, pen.style.line_pt * 0.8};
        const double end = 1.4 * unit(pen);
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

[[nodiscard]] std::unique_ptr<TableFigure> make_dots_figure(const TablePlot& plot, TableMarks marks);
[[nodiscard]] std::unique_ptr<TableFigure> make_curves_figure(const TablePlot& plot, TableMarks marks);

} // namespace refreshlab::ui
