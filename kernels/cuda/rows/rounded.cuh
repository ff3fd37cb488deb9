#pragma once

#include "kernels/cuda/decode/weights.cuh"

/// fp32 numbers as a tensor core takes them: two in a register, rounded to the weights' type (bf16 or f16, to the nearest, ties to even).
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

} // namespace refreshlab::kernels::RL_GPU
