#include "engine/session/pair/tensor_check.h"

#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/checkpoint/weight_checks.h"

#include <ATen/ops/empty.h>

namespace refreshlab {

void check_tensors(const ModelConfig& config, const WeightStore& weights) {
    refuse_unread_weights(config, weights);
    const auto check = [&](const std::string& name, at::IntArrayRef shape) {
        weights.check(name, shape);
        return at::empty(shape, at::TensorOptions().device(at::kMeta)); // a shape without memory
    };
    static_cast<void>(LlamaWeights::gather(config, check, at::Device(at::kMeta), at::kFloat));
}

} // namespace refreshlab
