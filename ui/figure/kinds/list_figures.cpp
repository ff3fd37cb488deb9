// Tables of a run's events, and of runs.
#include "engine/base/error.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/figure/kinds/kinds.h"
#include "ui/figure/paint/list_paint.h"
#include "ui/scene/runs/run_rows.h"
#include "ui/scene/text/event_table.h"
#include "ui/scene/theme/run_colours.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace refreshlab::ui {

namespace {

constexpr size_t most_rows = 200; ///< that are printed; the file of numbers has all

/// A table and its numbers. Rows beyond most_rows are counted.
class ListFigure : public Figure {
public:
    double height(const FigurePen& pen, double width) const override {
        return table_height(pen, width, printed(pen.style));
    }
    void draw(const FigurePen& pen, const FigureRect& place) const override {
        paint_table(pen, place, printed(pen.style));
    }

protected:
    /// Rows may be more than most_rows.
    [[nodiscard]] virtual PrintedTable whole(const FigureStyle& style) const = 0;

private:
    [[nodiscard]] PrintedTable printed(const FigureStyle& style) const {
        PrintedTable table = whole(style);
        if (table.rows.size() <= most_rows) return table;
        const auto more = static_cast<int64_t>(table.rows.size() - most_rows);
        table.below = fmt::format("and {}, in the file of numbers", format_count(more, "more row"));
        table.rows.resize(most_rows);
        return table;
    }
};

/// Leaves out the columns that the view hides. Throws where none is left.
void keep_shown(PrintedTable& table, const TableView& view, std::span<const std::string_view> keys) {
    for (size_t i = keys.size(); i-- > 0;) {
        if (view.shows(keys[i])) continue;
        const auto at = static_cast<std::ptrdiff_t>(i);
        table.columns.erase(table.columns.begin() + at);
        for (auto& row : table.rows)
            row.erase(row.begin() + at);
    }
    if (table.columns.empty()) throw Error("drawing a figure", "--columns", "no column is left");
}

class EventsFigure final : public ListFigure {
public:
    explicit EventsFigure(const FigureRequest& request)
        : m_marks(request.runs.front().recording)
        , m_view(request.views.events)
        , m_rows(event_rows(*request.runs.front().recording, m_marks, m_view,
                            steps_of(request, *request.runs.front().recording))) {
        if (m_rows.empty())
            throw Error("drawing a figure", "--panel events",
                        "nothing of the chosen kinds has happened at these steps");
    }
    DataTable table() const override { return events_table(m_rows); }

protected:
    PrintedTable whole(const FigureStyle& style) const override {
        PrintedTable table;
        for (size_t i = 0; i < num_event_columns; ++i) {
            const auto column = static_cast<EventColumn>(i);
            const bool number = column == EventColumn::step || column == EventColumn::value ||
                                column == EventColumn::threshold || column == EventColumn::spliced ||
                                column == EventColumn::ms;
            table.columns.push_back({std::string(event_column_name(column)),
                                     number ? TextStyle::Align::right : TextStyle::Align::left,
                                     column == EventColumn::reason});
        }
        const auto number = [](double value, auto&& words) {
            return PrintedTable::Cell{std::isnan(value) ? "-" : words(value)};
        };
        for (const EventRow& row : m_rows)
            table.rows.push_back(
                {{format_thousands(row.step)},
                 {row.reason, box_of(style.theme, row)},
                 {row.value_text},
                 {row.threshold_text},
                 number(row.spliced, [](double v) { return format_thousands(static_cast<int64_t>(v)); }),
                 number(row.ms, [](double v) { return format_number(v); }),
                 {row.token_read},
                 {row.chosen_before},
                 {row.chosen_after, {}, row.chosen_after != row.chosen_before}});
        keep_shown(table, m_view.table, event_column_keys());
        return table;
    }

private:
    /// As the panel's badges.
    [[nodiscard]] std::optional<PrintedTable::Box> box_of(const Theme& theme, const EventRow& row) const {
        if (row.lane == MarkLane::change) return {};
        return PrintedTable::Box{mark_colour(theme, m_marks, row.lane, row.index) | alpha_mask,
                                 row.lane != MarkLane::refresh && row.lane != MarkLane::note,
                                 std::string(1, mark_letter(m_marks, row.lane, row.index))};
    }

    StepMarks m_marks;
    EventChoice m_view;
    std::vector<EventRow> m_rows;
};

class RunsFigure final : public ListFigure {
public:
    explicit RunsFigure(const FigureRequest& request)
        : m_runs(request.runs)
        , m_view(request.views.runs) {
        const Recording* root_before = nullptr;
        for (const FigureRun& run : m_runs) {
            RunMetrics metrics;
            metrics.update(*run.recording, run.recording->steps());
            m_numbers.push_back({run.name, metrics.numbers()});
            m_changes.push_back(what_changed(*run.recording, root_before));
            if (run.recording->info().parent_id.empty()) root_before = run.recording.get();
        }
        m_order = run_order(m_numbers, m_view);
    }

    DataTable table() const override {
        DataTable table{{"run", "change"}, {}};
        for (size_t c = 1; c < num_run_columns; ++c)
            table.columns.emplace_back(run_column_key(static_cast<RunColumn>(c)));
        for (const size_t i : m_order) {
            std::vector<std::string> row{m_runs[i].name, m_changes[i]};
            for (size_t c = 1; c < num_run_columns; ++c) {
                const auto value = run_number(m_numbers[i].numbers, static_cast<RunColumn>(c));
                row.push_back(value ? cell_text(*value) : std::string());
            }
            table.rows.push_back(std::move(row));
        }
        return table;
    }

protected:
    PrintedTable whole(const FigureStyle& style) const override {
        PrintedTable table;
        table.columns = {{"Run", TextStyle::Align::left, true}, {"Change", TextStyle::Align::left, true}};
        for (size_t c = 1; c < num_run_columns; ++c) {
            const auto column = static_cast<RunColumn>(c);
            table.columns.push_back({run_column_name(column), TextStyle::Align::right, false});
        }
        const auto colours = places_of_colours(m_runs, style.runs.size());
        for (const size_t i : m_order) {
            std::vector<PrintedTable::Cell> row{
                {m_runs[i].name, PrintedTable::Box{style.runs[colours[i]] | alpha_mask}}, {m_changes[i]}};
            for (size_t c = 1; c < num_run_columns; ++c)
                row.push_back({run_number_words(m_numbers[i].numbers, static_cast<RunColumn>(c))});
            table.rows.push_back(std::move(row));
        }
        keep_shown(table, m_view, run_table_keys());
        return table;
    }

private:
    std::vector<FigureRun> m_runs;
    TableView m_view;
    std::vector<SortedRun> m_numbers; ///< in the order of m_runs, as m_changes
    std::vector<std::string> m_changes;
    std::vector<size_t> m_order;
};

} // namespace

std::unique_ptr<Figure> make_events_figure(const FigureRequest& request) {
    return std::make_unique<EventsFigure>(request);
}

std::unique_ptr<Figure> make_runs_figure(const FigureRequest& request) {
    return std::make_unique<RunsFigure>(request);
}

} // namespace refreshlab::ui
