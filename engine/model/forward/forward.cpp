#include "engine/model/forward.h"

#include "engine/base/check.h"

namespace refreshlab {

std::vector<StepOutputs> Forward::step_together(std::span<const CacheStep> steps) const {
    std::vector<StepOutputs> outs;
    for (const CacheStep& step : steps) {
        RL_ASSERT(step.cache != nullptr && step.in.mc.passes == 0);
        outs.push_back(this->step(*step.cache, step.in));
    }
    return outs;
}

} // namespace refreshlab
