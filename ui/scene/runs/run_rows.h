#pragma once

#include "engine/record/runs/run_tree.h"
#include "ui/base/table_view.h"
#include "ui/scene/runs/run_metrics.h"
#include "ui/scene/runs/run_set.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// What a row of a table of runs is sorted by.
struct SortedRun {
    std::string name;
    RunNumbers numbers = {};
};
/// Places of the runs as the view sorts them, by a run_column_key(): runs of which it is not known last, equal ones in the order in which
/// they came. Without such a key as they came.
[[nodiscard]] std::vector<size_t> run_order(std::span<const SortedRun> runs, const TableView& view);

/// The rows of the panel Runs: the tree, or sorted as run_order() sorts the runs in the order in which they came.
[[nodiscard]] std::vector<RunTree::Row> run_rows(const RunSet& runs, const TableView& view);

} // namespace refreshlab::ui
