#include "ui/scene/runs/run_rows.h"

#include <algorithm>
#include <numeric>

namespace refreshlab::ui {

std::vector<size_t> run_order(std::span<const SortedRun> runs, const TableView& view) {
    std::vector<size_t> order(runs.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto by = run_column_named(view.sorted_by);
    if (!by) return order;
    std::ranges::stable_sort(order, [&](size_t a, size_t b) {
        if (*by == RunColumn::name)
            return view.descending ? runs[b].name < runs[a].name : runs[a].name < runs[b].name;
        const auto x = run_number(runs[a].numbers, *by), y = run_number(runs[b].numbers, *by);
        if (!x || !y) return x.has_value() && !y.has_value();
        return view.descending ? *y < *x : *x < *y;
    });
    return order;
}

std::vector<RunTree::Row> run_rows(const RunSet& runs, const TableView& view) {
    if (!run_column_named(view.sorted_by)) return runs.tree().rows();
    std::vector<SortedRun> sorted;
    for (const RunNode& run : runs.tree().runs())
        sorted.push_back({run.name, runs.find(run.key)->metrics.numbers()});
    std::vector<RunTree::Row> rows;
    for (const size_t i : run_order(sorted, view))
        rows.push_back({runs.tree().runs()[i].key, 0});
    return rows;
}

} // namespace refreshlab::ui
