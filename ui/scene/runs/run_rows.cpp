#include "ui/scene/runs/run_rows.h"

#include <algorithm>

namespace refreshlab::ui {

std::vector<RunTree::Row> run_rows(const RunSet& runs, std::optional<RunColumn> by, bool descending) {
    std::vector<RunTree::Row> rows = runs.tree().rows();
    if (!by) return rows;
    for (RunTree::Row& row : rows)
        row.depth = 0;
    std::ranges::sort(rows, {}, &RunTree::Row::key);
    std::ranges::stable_sort(rows, [&](const RunTree::Row& a, const RunTree::Row& b) {
        if (*by == RunColumn::name) {
            const std::string x = runs.name(a.key), y = runs.name(b.key);
            return descending ? y < x : x < y;
        }
        const auto x = run_number(runs.find(a.key)->metrics.numbers(), *by),
                   y = run_number(runs.find(b.key)->metrics.numbers(), *by);
        if (!x || !y) return x.has_value() && !y.has_value();
        return descending ? *y < *x : *x < *y;
    });
    return rows;
}

} // namespace refreshlab::ui
