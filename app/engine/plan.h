#pragma once

#include "app/options/bench_options.h"
#include "engine/bench/report/plan_report.h"

namespace refreshlab::app {

/// bench --plan: what is predicted of a decode step. Throws Error{bad_input}.
[[nodiscard]] bench::PlanReport plan_of(const BenchCommandOptions& options);
/// Refuses options that only a plan has where none was asked for. Throws Error{bad_input}.
void refuse_plan_options(const BenchCommandOptions& options);

} // namespace refreshlab::app
