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

/// To the nearest, ties to even; too large becomes infinite, NaN stays a NaN. Without a branch: loops over it become vector code.
[[gnu::always_inline]] inline F16 to_half(float x) {
    const auto bits = std::bit_cast<uint32_t>(x);
    const uint32_t magnitude = bits & 0x7FFFFFFFU;
    // Normal numbers: round in place, then correct the exponent by 127 - 15.
    const uint32_t normal = (magnitude + 0xFFFU + ((magnitude >> 13) & 1U) - (112U << 23)) >> 13;
    // Below 2^-14: the sum with 1/2 has an ulp of 2^-24, the smallest step of an f16.
    const uint32_t subnormal =
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - std::bit_cast<uint32_t>(0.5F);
    constexpr uint32_t least_normal = 113U << 23, first_infinite = 0x477FF000U; // 2^-14 and 65520
    uint32_t half = magnitude < least_normal ? subnormal : normal;
    half = magnitude >= first_infinite ? 0x7C00U : half;
    half = magnitude > 0x7F800000U ? 0x7E00U : half;
    return {static_cast<uint16_t>(half | ((bits >> 16) & 0x8000U))};
}

} // namespace refreshlab::kernels::cpu
