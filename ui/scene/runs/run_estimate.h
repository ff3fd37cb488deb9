#pragma once

#include "engine/control/run_config.h"
#include "engine/refresh/what_if.h"
#include "ui/scene/runs/run_metrics.h"

#include <cstdint>
#include <memory>
#include <string>

namespace refreshlab::ui {

/// What was expected of a run before it began: its policy on the values that another run had recorded. It stays beside the outcome.
struct RunEstimate {
    RefreshPolicy policy; ///< of the run that it is about
    std::string prompt;   ///< the same
    std::string of;       ///< name of the run whose values were taken
    int64_t steps = 0;    ///< of those values
    WhatIf expected;
};

/// What `config` would do, judged on the first `steps` steps of a recording. Cost: O(steps * triggers).
/// \param of  name of that recording's run
[[nodiscard]] RunEstimate estimate_run(const std::shared_ptr<const Recording>& recording, int64_t steps,
                                       const RunConfig& config, std::string of);
[[nodiscard]] bool is_about(const RunEstimate& estimate, const RunConfig& config);

/// "7 refreshes, +11 to 14 % time (estimate)".
[[nodiscard]] std::string expected_text(const RunEstimate& estimate);
/// Two lines: what was expected on which values, and what the run has.
[[nodiscard]] std::string outcome_text(const RunEstimate& estimate, const RunNumbers& had);

} // namespace refreshlab::ui
