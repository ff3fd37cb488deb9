#pragma once

#include "engine/record/trace/trace_store.h"
#include "ui/scene/runs/run_set.h"

#include <vector>

namespace refreshlab::ui {

/// Every run of the set for one file, as save_traces() takes them: opened again it is the same tree. Of two runs of one id (a run and the
/// trace it was saved in) the longer one.
[[nodiscard]] std::vector<SavedRun> saved_runs(const RunSet& runs);

} // namespace refreshlab::ui
