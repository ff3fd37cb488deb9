#pragma once

#include "engine/record/trace/trace_store.h"
#include "ui/scene/runs/run_set.h"

#include <memory>
#include <vector>

namespace refreshlab::ui {

/// Every run of the set for one file, as save_traces() takes them: opened again it is the same tree. Of two runs of one id (a run and the
/// trace it was saved in) the longer one, of equal ones that
/// with more signals, under the name that either has.
[[nodiscard]] std::vector<SavedRun> saved_runs(const RunSet& runs);
/// One of them alone, with all of its steps and under its name.
[[nodiscard]] SavedRun saved_run(const RunSet& runs, const std::shared_ptr<const Recording>& recording);

} // namespace refreshlab::ui
