// What a decode step costs under every cache policy, on random weights: the pair's own context may be too short to show it.
#include "engine/bench/measure/sections.h"
#include "kernels/execution/execution_context.h"

namespace refreshlab::bench {

void measure_cache_policies(const SectionInputs& in, BenchReport& report) {
    in.tell("steps under every cache policy");
    const kernels::ExecutionScope scope(*in.bench.execution);
    PolicyCostInputs inputs;
    inputs.policies = in.options.policies;
    inputs.entries = in.options.policy_entries;
    inputs.steps = in.options.policy_steps;
    inputs.seconds = in.options.policy_seconds;
    report.cache_policies = policy_cost(inputs);
}

} // namespace refreshlab::bench
