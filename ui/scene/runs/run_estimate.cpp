#include "ui/scene/runs/run_estimate.h"

#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/scene/policy/what_if_preview.h"

#include <fmt/format.h>

#include <utility>

namespace refreshlab::ui {

RunEstimate estimate_run(const std::shared_ptr<const Recording>& recording, int64_t steps,
                         const RunConfig& config, std::string of) {
    return {config.policy, config.prompt, std::move(of), steps,
            what_if(config.policy, recorded_run(recording, steps))};
}

bool is_about(const RunEstimate& estimate, const RunConfig& config) {
    return estimate.policy == config.policy && estimate.prompt == config.prompt;
}

std::string expected_text(const RunEstimate& estimate) {
    return what_if_outcome(estimate.expected) + " (estimate)";
}

std::string outcome_text(const RunEstimate& estimate, const RunNumbers& had) {
    const std::string time =
        had.added_percent ? fmt::format(", +{} % time", format_number(*had.added_percent)) : std::string();
    return fmt::format("Estimated on {} of {}: {}\nIt has in {}: {}{}", format_count(estimate.steps, "step"),
                       estimate.of, what_if_outcome(estimate.expected), format_count(had.steps, "step"),
                       format_count(had.refreshes, "refresh"), time);
}

} // namespace refreshlab::ui
