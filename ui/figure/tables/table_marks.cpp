#include "ui/figure/tables/table_marks.h"

#include "engine/base/error.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace refreshlab::ui {

namespace {

constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

/// A cell as a number; NaN for one that is empty.
double number_of(const DataTable& table, size_t row, size_t column, const std::string& what) {
    const std::string& cell = table.rows[row][column];
    if (cell.empty() || cell == "-") return nothing;
    const auto value = cell_number(cell);
    if (!value)
        throw Error("drawing a figure", what,
                    fmt::format("column {} has '{}' in row {}, which is no number",
                                visible_text(table.columns[column], 60), visible_text(cell, 60), row + 1));
    return *value;
}

/// What the cells of these columns say together: numbers need their column's name beside them.
std::string words_of(const DataTable& table, size_t row, const std::vector<std::string>& columns) {
    std::vector<std::string> words;
    for (const std::string& column : columns) {
        const std::string& cell = table.rows[row][*table.find(column)];
        words.push_back(cell_number(cell) ? fmt::format("{}: {}", column, cell) : cell);
    }
    return fmt::format("{}", fmt::join(words, ", "));
}

bool counts(const TablePlot& plot, const DataTable& table, size_t row) {
    return std::ranges::all_of(
        plot.only, [&](const auto& only) { return table.rows[row][*table.find(only.first)] == only.second; });
}

/// Index of an element, which is added where it is not there.
template <class List, class Same, class Make>
size_t index_of(List& list, const Same& same, const Make& make) {
    const auto found = std::ranges::find_if(list, same);
    if (found != list.end()) return static_cast<size_t>(found - list.begin());
    list.push_back(make());
    return list.size() - 1;
}

class Reader {
public:
    Reader(const TablePlot& plot, const DataTable& table, const std::string& what)
        : m_plot(plot)
        , m_table(table)
        , m_what(what) {
        for (const auto* names : {&plot.facets, &plot.series})
            m_marks.table.columns.insert(m_marks.table.columns.end(), names->begin(), names->end());
        if (over_x()) m_marks.table.columns.push_back(plot.x);
        for (const char* name : {"column", "value", "low", "high"})
            m_marks.table.columns.emplace_back(name);
    }

    TableMarks read() {
        for (size_t row = 0; row < m_table.rows.size(); ++row)
            if (counts(m_plot, m_table, row)) add(row);
        if (m_marks.table.rows.empty())
            throw Error("drawing a figure", m_what,
                        fmt::format("the table has no values for {}", m_plot.name));
        if (over_x())
            for (TableMarks::Facet& facet : m_marks.facets)
                for (auto& part : facet.parts)
                    for (TableSeries& series : part)
                        std::ranges::stable_sort(series.marks, {}, &TableMark::x);
        return std::move(m_marks);
    }

private:
    [[nodiscard]] bool over_x() const { return m_plot.kind != TablePlot::Kind::dots; }

    [[nodiscard]] TableMark mark_at(size_t row, size_t column) const {
        const auto number = [&](size_t c) { return number_of(m_table, row, c, m_what); };
        TableMark mark{.x = over_x() ? number(*m_table.find(m_plot.x)) : 0,
                       .value = number(column),
                       .low = nothing,
                       .high = nothing,
                       .row = row};
        if (const auto ends = interval_of(m_table, column)) {
            const double half = ends->half_width ? number(ends->low) : 0;
            mark.low = ends->half_width ? mark.value - half : number(ends->low);
            mark.high = ends->half_width ? mark.value + half : number(ends->high);
        }
        return mark;
    }

    void add(size_t row) {
        for (size_t p = 0; p < m_plot.parts.size(); ++p) {
            const auto& values = m_plot.parts[p].values;
            for (size_t v = 0; v < values.size(); ++v) {
                const size_t column = *m_table.find(values[v]);
                const TableMark mark = mark_at(row, column);
                if (!std::isfinite(mark.value) || !std::isfinite(mark.x)) continue;
                place(row, p, v).marks.push_back(mark);
                note(row, column, mark);
            }
        }
    }

    TableSeries& place(size_t row, size_t part, size_t value) {
        const std::string name = words_of(m_table, row, m_plot.series),
                          words = words_of(m_table, row, m_plot.facets);
        const size_t series = index_of(
            m_marks.series, [&](const std::string& s) { return s == name; }, [&] { return name; });
        auto& facets = m_marks.facets;
        const size_t f = index_of(
            facets, [&](const TableMarks::Facet& one) { return one.words == words; },
            [&] {
                return TableMarks::Facet{
                    words, {}, std::vector<std::vector<TableSeries>>(m_plot.parts.size())};
            });
        if (std::ranges::find(facets[f].series, series) == facets[f].series.end())
            facets[f].series.push_back(series);
        auto& places = facets[f].parts[part];
        const size_t at = index_of(
            places, [&](const TableSeries& s) { return s.series == series && s.value == value; },
            [&] {
                return TableSeries{series, value, {}};
            });
        return places[at];
    }

    void note(size_t row, size_t column, const TableMark& mark) {
        const auto& cells = m_table.rows[row];
        std::vector<std::string> line;
        for (const auto* names : {&m_plot.facets, &m_plot.series})
            for (const std::string& name : *names)
                line.push_back(cells[*m_table.find(name)]);
        if (over_x()) line.push_back(cells[*m_table.find(m_plot.x)]);
        line.push_back(m_table.columns[column]);
        line.push_back(cells[column]);
        const auto ends = interval_of(m_table, column);
        if (ends && ends->half_width) {
            const auto text = [](double value) {
                return std::isfinite(value) ? fmt::format("{}", value) : "";
            };
            line.push_back(text(mark.low));
            line.push_back(text(mark.high));
        } else {
            line.push_back(ends ? cells[ends->low] : "");
            line.push_back(ends ? cells[ends->high] : "");
        }
        m_marks.table.rows.push_back(std::move(line));
    }

    const TablePlot& m_plot;
    const DataTable& m_table;
    const std::string& m_what;
    TableMarks m_marks;
};

} // namespace

std::vector<TableMark> frontier_marks(const std::vector<TableSeries>& part, TablePlot::Frontier frontier) {
    std::vector<TableMark> marks, best;
    for (const TableSeries& series : part)
        marks.insert(marks.end(), series.marks.begin(), series.marks.end());
    const auto better = [&](double a, double b) {
        return frontier == TablePlot::Frontier::high ? a > b : a < b;
    };
    std::ranges::sort(marks, [&](const TableMark& a, const TableMark& b) {
        return a.x != b.x ? a.x < b.x : better(a.value, b.value);
    });
    for (const TableMark& mark : marks)
        if (best.empty() || better(mark.value, best.back().value)) best.push_back(mark);
    return best;
}

TableMarks table_marks(const TablePlot& plot, const DataTable& table, const std::string& what) {
    check_columns(plot, table, what);
    return Reader(plot, table, what).read();
}

} // namespace refreshlab::ui
