#pragma once

#include "engine/model/checkpoint/llama_weights.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace refreshlab {

/// The dimension of a tensor that runs over the channels of an MLP; -1: none does.
[[nodiscard]] int64_t channel_dim(const WeightPlace& place);
/// The same of the channels of the residual (hidden channels).
[[nodiscard]] int64_t hidden_dim(const WeightPlace& place);

/// The first shape[d] rows of each dimension. \return a view
[[nodiscard]] at::Tensor without_padding(at::Tensor tensor, const std::vector<int64_t>& shape);
/// Filled with zeros to a shape that is at least as large; itself, contiguous, where it has the shape.
[[nodiscard]] at::Tensor with_padding(const at::Tensor& tensor, const std::vector<int64_t>& shape);

} // namespace refreshlab
