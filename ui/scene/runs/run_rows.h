#pragma once

#include "engine/record/runs/run_tree.h"
#include "ui/scene/runs/run_metrics.h"
#include "ui/scene/runs/run_set.h"

#include <optional>
#include <vector>

namespace refreshlab::ui {

/// The rows of the panel Runs. \param by  nothing: the tree; else sorted by it, runs of which it is not known last, equal ones in the
/// order in which they came
[[nodiscard]] std::vector<RunTree::Row> run_rows(const RunSet& runs, std::optional<RunColumn> by,
                                                 bool descending);

} // namespace refreshlab::ui
