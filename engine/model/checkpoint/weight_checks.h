#pragma once

#include "engine/model/checkpoint/weight_store.h"
#include "engine/model/model_config.h"

#include <ATen/core/Tensor.h>

#include <string>

namespace refreshlab {

/// Throws Error, naming file and tensor, for a stored weight that the family has no place for: a bias, a norm, a layer.
/// Without it another model would run. Buffers (rotary tables) and the copy of a tied head are not weights.
void refuse_unread_weights(const ModelConfig& config, const WeightStore& weights);

/// Compares stored tensors with a configuration by name, shape and type, and reads no weight. Of a model that passes
/// this and refuse_unread_weights(), LlamaModel::load() refuses only weights that are not finite. Throws
/// Error{bad_input} naming file and tensor. Cost: a look at each tensor's header.
void check_tensors(const ModelConfig& config, const WeightStore& weights);

/// Throws Error, naming file and tensor, for a weight that is NaN or infinite, or becomes so as f16. No number of such
/// a model means anything.
/// \param tensor  as WeightStore::read() gave it
/// \param dtype   what it will be computed in
void require_finite(const WeightStore& weights, const std::string& name, const at::Tensor& tensor,
                    at::ScalarType dtype);

} // namespace refreshlab
