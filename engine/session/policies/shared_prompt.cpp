#include "engine/session/policies/shared_prompt.h"

#include "engine/base/check.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/llama_model.h"
#include "engine/session/policies/policy_runner.h"

#include <memory>
#include <vector>

namespace refreshlab {

StepOutputs read_shared_prompt(const LlamaModel& model, std::span<const int32_t> tokens, KvCache& cache,
                               std::span<PolicyRunner* const> runners,
                               const std::optional<kernels::RowAsk>& ask) {
    std::vector<std::vector<LayerHooks*>> passes(1);
    bool sums = false; // of the first pass
    for (PolicyRunner* runner : runners) {
        RL_ASSERT(runner->needs().prompt_band == 0);
        const bool alone = sums && runner->needs().prompt_sums;
        sums = sums || runner->needs().prompt_sums;
        if (alone) passes.push_back({runner});
        if (!alone) passes.front().push_back(runner);
    }
    StepInputs in;
    in.tokens = tokens;
    in.origin = Origin::student_prefill;
    in.ask = ask;
    in.hooks = passes.front();
    StepOutputs out = model.forward().prefill(cache, in);
    for (size_t pass = 1; pass < passes.size(); ++pass) {
        const auto again = model.make_cache(std::ssize(tokens));
        again->set_context(cache.context());
        in.hooks = passes[pass];
        static_cast<void>(model.forward().prefill(*again, in));
    }
    return out;
}

} // namespace refreshlab
