#pragma once

#include "kernels/ops/attention.h"

namespace refreshlab::kernels::cpu {

/// The CPU version of kernels/ops/attention.h, which checks the arguments.
[[nodiscard]] at::Tensor attention(const AttentionInputs& in, at::Tensor* probabilities);

} // namespace refreshlab::kernels::cpu
