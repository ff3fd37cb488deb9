#include "engine/session/policies/shared_prompt.h"

#include "engine/base/check.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/llama_model.h"
#include "engine/session/policies/policy_runner.h"

#include <vector>

namespace refreshlab {

StepOutputs read_shared_prompt(const LlamaModel& model, std::span<const int32_t> tokens, KvCache& cache,
                               std::span<PolicyRunner* const> runners,
                               const std::optional<kernels::RowAsk>& ask) {
    std::vector<LayerHooks*> hooks;
    const PolicyRunner* sums = nullptr; // who asks for them
    for (PolicyRunner* runner : runners) {
        RL_ASSERT(runner->needs().prompt_band == 0);
        hooks.push_back(runner);
        if (!runner->needs().prompt_sums) continue;
        if (sums != nullptr) runner->share_prompt_sums(*sums);
        if (sums == nullptr) sums = runner;
    }
    StepInputs in;
    in.tokens = tokens;
    in.origin = Origin::student_prefill;
    in.ask = ask;
    in.hooks = hooks;
    return model.forward().prefill(cache, in);
}

} // namespace refreshlab
