#pragma once

#include "engine/bench/numbers/plan_shape.h"
#include "engine/bench/numbers/predict_refresh.h"
#include "engine/bench/numbers/predict_step.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>

namespace refreshlab::bench {

/// What `bench --plan` found: a prediction, and said to be one wherever it is shown.
struct PlanReport {
    PlannedModel model; ///< with rows, context and capacity
    std::string dtype, commit;
    PredictedStep step;
    ShareRange range;                      ///< of the step's share of the floor
    std::optional<double> without_rows_us; ///< the step without attention rows, where it has some
    std::string student; ///< whose cache is refreshed, and in whose steps the refresh's time is told
    std::optional<PredictedRefresh> refresh;
};

/// Launches one by one in the order of the step; "bytes" are the floor's.
[[nodiscard]] nlohmann::json to_json(const PlanReport& report);
/// Lines for a person; launches that differ in their layer alone are one line.
[[nodiscard]] std::string plan_table(const PlanReport& report);

} // namespace refreshlab::bench
