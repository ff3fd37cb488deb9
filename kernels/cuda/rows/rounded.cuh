#pragma once

#include "kernels/cuda/decode/weights.cuh"

/// fp32 numbers rounded to the weights' type, to the nearest, ties to even; pairs of bf16 or f16 are what tensor cores take.
namespace refreshlab::kernels::RL_GPU {

/// The first number in the lower half.
template <WeightType type>
__device__ inline uint32_t rounded_pair(float first, float second) {
#ifdef REFRESHLAB_SIMT
    return static_cast<uint32_t>(to_stored<type>(first)) | static_cast<uint32_t>(to_stored<type>(second))
                                                               << 16;
#else
    uint32_t pair;
    if constexpr (type == WeightType::bf16) {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    } else {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    }
    return pair;
#endif
}

/// What rounding took away, rounded: the two pairs together are 16 (bf16) or 22 (f16) bits of the numbers.
template <WeightType type>
__device__ inline uint32_t rest_pair(float first, float second, uint32_t rounded) {
    return rounded_pair<type>(first - to_float<type>(static_cast<uint16_t>(rounded & 0xFFFFU)),
                              second - to_float<type>(static_cast<uint16_t>(rounded >> 16)));
}

/// Four numbers side by side, as they are stored.
template <WeightType type>
__device__ inline void store_four(void* to, float a, float b, float c, float d) {
    if constexpr (type == WeightType::f32) {
        *static_cast<float4*>(to) = make_float4(a, b, c, d);
    } else {
        *static_cast<uint2*>(to) = make_uint2(rounded_pair<type>(a, b), rounded_pair<type>(c, d));
    }
}
/// And two.
template <WeightType type>
__device__ inline void store_two(void* to, float a, float b) {
    if constexpr (type == WeightType::f32) {
        *static_cast<float2*>(to) = make_float2(a, b);
    } else {
        *static_cast<uint32_t*>(to) = rounded_pair<type>(a, b);
    }
}

} // namespace refreshlab::kernels::RL_GPU
