#include "ui/scene/tables/table_choice.h"

#include "ui/base/format.h"
#include "ui/base/value_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <set>
#include <span>

namespace refreshlab::ui {

namespace {

std::string lower(std::string_view text) {
    std::string low(text);
    std::ranges::transform(low, low.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return low;
}

bool names_one_of(std::string_view column, std::initializer_list<std::string_view> words) {
    const std::string low = lower(column);
    return std::ranges::any_of(words,
                               [&](std::string_view word) { return low.find(word) != std::string::npos; });
}

/// The first of the columns whose name has one of the words, tried in their order.
std::optional<size_t> first_named(const DataTable& table, std::span<const size_t> columns,
                                  std::initializer_list<std::string_view> words) {
    for (const std::string_view word : words)
        for (const size_t column : columns)
            if (names_one_of(table.columns[column], {word})) return column;
    return std::nullopt;
}

std::optional<size_t> chosen(const DataTable& table, std::span<const size_t> columns, std::string_view name) {
    const auto column = table.find(name);
    return column && std::ranges::find(columns, *column) != columns.end() ? column : std::nullopt;
}

bool rises(const DataTable& table, size_t column) {
    std::optional<double> last;
    for (const auto& row : table.rows) {
        const auto number = cell_number(row[column]);
        if (!number || (last && *number <= *last)) return false;
        last = number;
    }
    return true;
}

/// A column of a few words, whose values are curves or colours; nothing: there is none.
std::optional<size_t> series_column(const DataTable& table) {
    constexpr size_t few = 10;
    for (size_t c = 0; c < table.columns.size(); ++c) {
        std::set<std::string_view> values;
        bool words = true;
        for (const auto& row : table.rows) {
            words = words && !cell_number(row[c]) && !row[c].empty();
            if (!words || values.size() > few) break;
            values.insert(row[c]);
        }
        if (words && values.size() <= few && values.size() * 2 <= table.rows.size()) return c;
    }
    return std::nullopt;
}

TablePlot plot_of_axes(const TableFile& file, const FileTableView& view, const TableAxes& axes) {
    const DataTable& table = file.table;
    TablePlot plot;
    plot.name = table.columns[axes.y] + " over " + table.columns[axes.x];
    plot.table = file.path.stem().string();
    plot.x = plot.x_title = table.columns[axes.x];
    plot.x_log = view.log_x;
    plot.parts = {{.title = table.columns[axes.y], .values = {table.columns[axes.y]}, .log = view.log_y}};
    plot.kind = TablePlot::Kind::points;
    if (file.has_policies()) {
        plot.series = {"family"};
        using Frontier = TablePlot::Frontier;
        if (view.frontier)
            plot.parts[0].frontier = more_is_better(table.columns[axes.y]) ? Frontier::high : Frontier::low;
        return plot;
    }
    if (const auto series = series_column(table)) plot.series = {table.columns[*series]};
    if (rises(table, axes.x)) plot.kind = TablePlot::Kind::curves;
    return plot;
}

} // namespace

std::vector<size_t> number_columns(const DataTable& table) {
    std::vector<size_t> columns;
    std::set<size_t> ends;
    for (size_t c = 0; c < table.columns.size(); ++c) {
        if (const auto interval = interval_of(table, c); interval && !ends.contains(c)) {
            ends.insert(interval->low);
            ends.insert(interval->high);
        }
        if (ends.contains(c)) continue;
        if (std::ranges::any_of(table.rows, [&](const auto& row) { return cell_number(row[c]).has_value(); }))
            columns.push_back(c);
    }
    return columns;
}

bool more_is_better(std::string_view column) {
    return names_one_of(column,
                        {"accuracy", "score", "right", "first choice", "f1", "acceptance", "kept of"});
}

std::optional<TableAxes> table_axes(const TableFile& file, const FileTableView& view) {
    const DataTable& table = file.table;
    const std::vector<size_t> numbers = number_columns(table);
    if (numbers.size() < 2) return std::nullopt;
    auto x = chosen(table, numbers, view.x), y = chosen(table, numbers, view.y);
    if (!x && file.has_policies())
        x = first_named(table, numbers, {"bytes", "memory", "entries read", "entries", "budget"});
    if (!x) x = numbers[numbers[0] == y ? 1 : 0];
    std::vector<size_t> others = numbers;
    std::erase(others, *x);
    if (!y && file.has_policies())
        y = first_named(table, others, {"kl", "loss above", "loss", "accuracy", "score", "ppl"});
    if (!y) y = others.front();
    return TableAxes{*x, *y};
}

std::optional<TablePlot> shown_plot(const TableFile& file, const FileTableView& view) {
    if (file.table.rows.empty()) return std::nullopt;
    const auto named = std::ranges::find(file.plots, view.plot, &TablePlot::name);
    if (named != file.plots.end()) return *named;
    const auto axes = table_axes(file, view);
    const bool frontier = axes && file.has_policies() &&
                          names_one_of(file.table.columns[axes->x], {"bytes", "memory", "entries"});
    if (view.plot != columns_plot && !frontier && !file.plots.empty()) return file.plots.front();
    if (!axes) return std::nullopt;
    return plot_of_axes(file, view, *axes);
}

std::vector<size_t> sorted_rows(const DataTable& table, const TableView& view) {
    std::vector<size_t> rows(table.rows.size());
    std::iota(rows.begin(), rows.end(), size_t{0});
    const auto column = table.find(view.sorted_by);
    if (!column) return rows;
    struct Key {
        std::optional<double> number;
        std::string_view text;
        [[nodiscard]] bool nothing() const { return !number && (text.empty() || text == "-"); }
    };
    std::vector<Key> keys;
    keys.reserve(rows.size());
    for (const auto& row : table.rows)
        keys.push_back({cell_number(row[*column]), row[*column]});
    std::ranges::stable_sort(rows, [&](size_t a, size_t b) {
        const Key &first = keys[a], &second = keys[b];
        if (first.nothing() || second.nothing()) return !first.nothing() && second.nothing();
        const Key &low = view.descending ? second : first, &high = view.descending ? first : second;
        if (low.number && high.number) return *low.number < *high.number;
        if (low.number.has_value() != high.number.has_value()) return low.number.has_value();
        return low.text < high.text;
    });
    return rows;
}

std::string row_words(const TableFile& file, size_t row) {
    const auto& reading = file.rows[row];
    std::string text;
    if (reading.policy) {
        CachePolicyConfig said = reading.policy->config;
        if (!reading.policy->budget_said || reading.policy->share)
            said.values.erase("budget"); // not in entries
        text = cache_words(said) + "\n";
    }
    for (size_t c = 0; c < file.table.columns.size(); ++c) {
        const std::string& cell = file.table.rows[row][c];
        if (cell.empty() || cell.starts_with('{')) continue;
        const auto number = cell_number(cell);
        text += fmt::format("{}: {}\n", file.table.columns[c], number ? format_number(*number) : cell);
    }
    if (!text.empty()) text.pop_back();
    return text;
}

} // namespace refreshlab::ui
