#pragma once

#include "engine/model/checkpoint/weight_store.h"
#include "engine/model/model_config.h"

#include <ATen/core/Tensor.h>

#include <string>

namespace refreshlab {

/// A weight that no place of the family takes is a part of the model that we would leave out: a bias, a norm, a layer.
/// Buffers (rotary tables) and the copy of a tied head are not weights. Throws Error naming file and tensor.
void refuse_unread_weights(const ModelConfig& config, const WeightStore& weights);

/// Holds stored tensors against a configuration by name, shape and type, and reads no weight: what passes here and in
/// refuse_unread_weights() is refused by LlamaModel::load() only for a weight that is no finite number. Throws Error{bad_input}
/// naming file and tensor. Cost: a look at each tensor's header.
void check_tensors(const ModelConfig& config, const WeightStore& weights);

/// Throws Error, naming file and tensor, for a weight that is NaN or infinite, or would be as f16: no number that such a
/// model gives means anything.
/// \param tensor  as WeightStore::read() gave it
/// \param dtype   what it will be computed in
void require_finite(const WeightStore& weights, const std::string& name, const at::Tensor& tensor,
                    at::ScalarType dtype);

} // namespace refreshlab
