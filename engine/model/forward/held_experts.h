#pragma once

#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/model_config.h"
#include "kernels/decode/decode_plan.h"

namespace refreshlab {

/// A model's routed experts as its weights are held: what the plan of a step, its kernels and their scratch depend on.
[[nodiscard]] inline kernels::decode::ExpertShape held_experts(const ModelConfig& config) {
    const Experts& experts = config.experts;
    return {experts.count, experts.used, LlamaWeights::held_width(experts.width)};
}

} // namespace refreshlab
