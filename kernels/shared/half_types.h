#pragma once

#include "kernels/shared/host_device.h"

#include <cstdint>

/// bf16 and IEEE halves as their 16 bits, to fp32 and back: the same bits on host and device, where the device has instructions of
/// its own for halves. Rounding is to nearest, ties to even; NaN stays a NaN.
namespace refreshlab::kernels::shared {

RL_HOST_DEVICE inline uint32_t float_bits(float x) {
#ifdef __CUDA_ARCH__
    return __float_as_uint(x);
#else
    return __builtin_bit_cast(uint32_t, x);
#endif
}
RL_HOST_DEVICE inline float bits_float(uint32_t bits) {
#ifdef __CUDA_ARCH__
    return __uint_as_float(bits);
#else
    return __builtin_bit_cast(float, bits);
#endif
}

/// Exact: a bf16 is the upper half of an fp32.
RL_HOST_DEVICE inline float bf16_to_float(uint32_t bf16) {
    return bits_float(bf16 << 16);
}

RL_HOST_DEVICE inline uint16_t float_to_bf16(float x) {
    const uint32_t bits = float_bits(x);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return 0x7FC0U;
    return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

/// Exact, subnormals, infinities and NaN included.
RL_HOST_DEVICE inline float half_to_float(uint16_t half) {
#ifdef __CUDA_ARCH__
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
    return x;
#else
    // A normal number is moved into place, and a multiplication with 2^112 corrects the exponent; it makes subnormals normal as well.
    const uint32_t sign = (half & 0x8000U) << 16;
    const uint32_t rest = (half & 0x7FFFU) << 13;
    const uint32_t special = rest >= 0x0F800000U ? 0x7F800000U : 0U; // infinity and NaN keep their mantissa
    return bits_float(float_bits(bits_float(rest) * 0x1p112F) | special | sign);
#endif
}

RL_HOST_DEVICE inline uint16_t float_to_half(float x) {
#ifdef __CUDA_ARCH__
    uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
#else
    constexpr uint32_t least_normal = 113U << 23, first_infinite = 0x477FF000U; // 2^-14 and 65520
    const uint32_t bits = float_bits(x), magnitude = bits & 0x7FFFFFFFU, sign = (bits >> 16) & 0x8000U;
    if (magnitude > 0x7F800000U) return 0x7FFFU; // the device's NaN
    if (magnitude >= first_infinite) return static_cast<uint16_t>(sign | 0x7C00U);
    if (magnitude >= least_normal) {
        const uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13) & 1U) - (112U << 23);
        return static_cast<uint16_t>(sign | (rounded >> 13));
    }
    // The sum with 1/2 has an ulp of 2^-24, the smallest step of a half.
    return static_cast<uint16_t>(sign | (float_bits(bits_float(magnitude) + 0.5F) - float_bits(0.5F)));
#endif
}

} // namespace refreshlab::kernels::shared
