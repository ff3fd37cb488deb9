#pragma once

#include <cstdint>

namespace refreshlab::kernels {

/// Where a dropout mask acts. Each value is part of the random key, so it never changes.
enum class DropoutSite : uint32_t {
    attention = 0,        ///< attention probabilities: element = head * 2^32 + key position
    attention_output = 1, ///< residual branch after o_proj: element = channel
    mlp_output = 2,       ///< residual branch after down_proj: element = channel
};

} // namespace refreshlab::kernels
