#pragma once

#include "engine/model/checkpoint/weight_store.h"
#include "engine/model/model_config.h"

namespace refreshlab {

/// Holds the tensors of a model against its configuration by name, shape and type, and reads no weight: what passes here is
/// refused by LlamaModel::load() only for a weight that is no finite number. Throws Error{bad_input} naming file and tensor.
/// Cost: a look at each tensor's header.
void check_tensors(const ModelConfig& config, const WeightStore& weights);

} // namespace refreshlab
