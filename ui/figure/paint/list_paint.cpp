#include "ui/figure/paint/list_paint.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace refreshlab::ui {

namespace {

using Column = PrintedTable::Column;
using Cell = PrintedTable::Cell;
using Align = TextStyle::Align;

constexpr double smallest_type = 0.65; ///< of the style's small type
constexpr size_t most_lines = 12;      ///< of a cell

double longest_word(const FigurePen& pen, std::string_view words, const TextStyle& style) {
    double widest = 0;
    while (!words.empty()) {
        const size_t end = std::min(words.find(' '), words.size());
        widest = std::max(widest, pen.canvas.width_of(words.substr(0, end), style));
        words.remove_prefix(std::min(end + 1, words.size()));
    }
    return widest;
}

/// A table laid out at a width.
class Layout {
public:
    Layout(const FigurePen& pen, double width, const PrintedTable& table)
        : m_pen(pen)
        , m_table(table)
        , m_width(width)
        , m_type(pen.small()) {
        measure(true);
        // Headings are broken first, then wrapped columns share what room there is; where that is not enough, letters become smaller.
        if (sum(m_wanted) + gaps() > width) measure(false);
        const double least = sum(m_least) + gaps();
        if (least > width) {
            m_type.size *= std::max(smallest_type, width / least);
            measure(false);
        }
        share_room();
        break_lines();
    }

    [[nodiscard]] double height() const {
        double height = heading_height() + 3 * pad();
        for (const double row : m_heights)
            height += row;
        return height + (m_table.below.empty() ? 0 : line() + pad());
    }

    void paint(FigurePoint at) const {
        const Stroke thick{m_pen.style.ink(), m_pen.style.line_pt},
            thin{m_pen.style.ink(), m_pen.style.axis_pt};
        const double right = at.x + m_width;
        double y = at.y + m_pen.style.line_pt / 2;
        m_pen.canvas.line({at.x, y}, {right, y}, thick);
        y += pad();
        {
            const FigureGroup group(m_pen.canvas, "headings");
            // Headings of one line stand at the foot of those of several.
            for (size_t i = 0; i < m_headings.size(); ++i)
                words(m_headings[i], i, at.x,
                      y + heading_height() - static_cast<double>(m_headings[i].size()) * line(), 0, m_type);
        }
        y += heading_height() + pad() / 2;
        m_pen.canvas.line({at.x, y}, {right, y}, thin);
        y += pad() / 2;
        const FigureGroup group(m_pen.canvas, "rows");
        for (size_t r = 0; r < m_table.rows.size(); ++r) {
            for (size_t i = 0; i < m_table.columns.size(); ++i)
                paint_cell(m_table.rows[r][i], m_cells[r][i], i, at.x, y);
            y += m_heights[r];
        }
        y += pad() / 2;
        m_pen.canvas.line({at.x, y}, {right, y}, thick);
        if (m_table.below.empty()) return;
        TextStyle muted = m_pen.muted();
        muted.size = m_type.size;
        m_pen.canvas.text({at.x, y + pad() / 2 + m_type.size}, m_pen.fitted(m_table.below, muted, m_width),
                          muted);
    }

private:
    [[nodiscard]] double line() const { return m_type.size * m_pen.style.spacing; }
    [[nodiscard]] double pad() const { return m_type.size * 0.5; }
    [[nodiscard]] double least_gap() const { return m_type.size; }
    [[nodiscard]] double gaps() const {
        return least_gap() * static_cast<double>(m_table.columns.size() - 1);
    }
    [[nodiscard]] double box_room() const { return m_type.size * 1.35; }
    [[nodiscard]] double heading_height() const {
        size_t lines = 1;
        for (const auto& heading : m_headings)
            lines = std::max(lines, heading.size());
        return static_cast<double>(lines) * line();
    }
    static double sum(const std::vector<double>& of) {
        double all = 0;
        for (const double one : of)
            all += one;
        return all;
    }

    /// What columns want, and the least that they can do with. \param whole  headings stand in one line
    void measure(bool whole) {
        m_wanted.clear();
        m_least.clear();
        for (size_t i = 0; i < m_table.columns.size(); ++i) {
            const Column& column = m_table.columns[i];
            double wanted = whole ? m_pen.canvas.width_of(column.heading, m_type)
                                  : longest_word(m_pen, column.heading, m_type);
            double least = wanted;
            for (const auto& row : m_table.rows) {
                const Cell& cell = row[i];
                const double room = cell.box ? box_room() : 0;
                wanted = std::max(wanted, room + m_pen.canvas.width_of(cell.words, m_type));
                least = std::max(least,
                                 room + std::min(longest_word(m_pen, cell.words, m_type), m_type.size * 9));
            }
            m_wanted.push_back(wanted);
            m_least.push_back(column.wraps ? std::min(least, wanted) : wanted);
        }
    }

    /// Widths and places of the columns.
    void share_room() {
        const double room = m_width - gaps(), wanted = sum(m_wanted), least = sum(m_least);
        m_widths = m_wanted;
        if (wanted > room) {
            const double share = wanted > least ? std::clamp((room - least) / (wanted - least), 0.0, 1.0) : 0;
            // Below the least all columns lose the same part, and cells end with an ellipsis.
            const double cut = least > room ? room / least : 1;
            for (size_t i = 0; i < m_widths.size(); ++i)
                m_widths[i] = cut * (m_least[i] + share * (m_wanted[i] - m_least[i]));
        }
        const double free = std::max(0.0, room - sum(m_widths));
        const size_t between = m_widths.size() - 1;
        const double gap = least_gap() + (between > 0 ? free / static_cast<double>(between) : 0);
        double x = 0;
        for (const double width : m_widths) {
            m_left.push_back(x);
            x += width + gap;
        }
    }

    void break_lines() {
        constexpr double slack = 0.01; // a text that was measured fits its own width
        for (size_t i = 0; i < m_table.columns.size(); ++i)
            m_headings.push_back(m_pen.wrapped(m_table.columns[i].heading, m_type, m_widths[i] + slack, 3));
        for (const auto& row : m_table.rows) {
            std::vector<std::vector<std::string>> cells;
            size_t lines = 1;
            for (size_t i = 0; i < row.size(); ++i) {
                const double width = m_widths[i] - (row[i].box ? box_room() : 0) + slack;
                cells.push_back(m_table.columns[i].wraps
                                    ? m_pen.wrapped(row[i].words, m_type, width, most_lines)
                                    : std::vector{m_pen.fitted(row[i].words, m_type, width)});
                lines = std::max(lines, cells.back().size());
            }
            m_cells.push_back(std::move(cells));
            m_heights.push_back(static_cast<double>(lines) * line());
        }
        // Where rows have several lines it shall be seen where one ends.
        if (std::ranges::any_of(m_heights, [&](double height) { return height > 1.5 * line(); }))
            for (double& height : m_heights)
                height += 0.3 * line();
    }

    void words(const std::vector<std::string>& lines, size_t column, double left, double top, double room,
               TextStyle style) const {
        style.align = m_table.columns[column].align;
        const double x = left + m_left[column] + (style.align == Align::right ? m_widths[column] : room);
        for (size_t n = 0; n < lines.size(); ++n)
            m_pen.canvas.text({x, top + static_cast<double>(n) * line() + m_type.size}, lines[n], style);
    }

    void paint_cell(const Cell& cell, const std::vector<std::string>& lines, size_t column, double left,
                    double top) const {
        TextStyle style = m_type;
        if (cell.strong) style.colour = m_pen.style.theme.accent_ink;
        if (cell.box) paint_box(*cell.box, left + m_left[column], top);
        words(lines, column, left, top, cell.box ? box_room() : 0, style);
    }

    void paint_box(const PrintedTable::Box& box, double x, double top) const {
        const double size = m_type.size;
        const FigureRect place{x, top + size * 0.16, size, size};
        TextStyle letter = m_type;
        letter.size = size * 0.8;
        letter.align = Align::centre;
        if (box.hollow) {
            m_pen.canvas.frame(place, {box.colour, m_pen.style.line_pt});
        } else {
            m_pen.canvas.rectangle(place, box.colour);
            letter.colour = readable_on(box.colour);
        }
        if (!box.letter.empty())
            m_pen.canvas.text({place.x + size / 2, place.y + size * 0.79}, box.letter, letter);
    }

    const FigurePen& m_pen;
    const PrintedTable& m_table;
    double m_width;
    TextStyle m_type;
    std::vector<double> m_wanted, m_least, m_widths, m_left, m_heights;
    std::vector<std::vector<std::string>> m_headings;           ///< lines
    std::vector<std::vector<std::vector<std::string>>> m_cells; ///< lines of each row's cells
};

} // namespace

double table_height(const FigurePen& pen, double width, const PrintedTable& table) {
    return Layout(pen, width, table).height();
}

void paint_table(const FigurePen& pen, const FigureRect& place, const PrintedTable& table) {
    Layout(pen, place.width, table).paint({place.x, place.y});
}

} // namespace refreshlab::ui
