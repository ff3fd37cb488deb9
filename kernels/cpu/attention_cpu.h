#pragma once

#include "kernels/ops/attention.h"

namespace refreshlab::kernels::cpu {

/// The CPU version behind kernels/ops/attention.h; arguments are checked there.
[[nodiscard]] at::Tensor attention(const AttentionInputs& in, at::Tensor* probabilities);

} // namespace refreshlab::kernels::cpu
