#pragma once

#include "kernels/cpu/cpu_kernels.h"

#include <bit>
#include <cstdint>

namespace refreshlab::kernels::cpu {

/// Exact.
[[gnu::always_inline]] inline float to_float(Bf16 h) {
    return std::bit_cast<float>(static_cast<uint32_t>(h.bits) << 16);
}

/// Exact, subnormals, infinities and NaN included. A normal number is moved into place and its exponent corrected by a
/// multiplication with 2^112, which also normalises subnormals.
[[gnu::always_inline]] inline float to_float(F16 h) {
    const uint32_t sign = static_cast<uint32_t>(h.bits & 0x8000U) << 16;
    const uint32_t rest = static_cast<uint32_t>(h.bits & 0x7FFFU) << 13;
    const float magnitude = std::bit_cast<float>(rest) * 0x1p112F;
    const uint32_t special = rest >= 0x0F800000U ? 0x7F800000U : 0U; // infinity and NaN keep their mantissa
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | special | sign);
}

} // namespace refreshlab::kernels::cpu
