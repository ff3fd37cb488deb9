#pragma once

#include "kernels/cuda/device/launch.cuh"
#include "kernels/shared/activation.h"

#include <cmath>

/// Functions of single numbers that models differ in, in fp32.
namespace refreshlab::kernels::RL_GPU {

/// kernels/shared/activation.h.
__device__ inline float activated(Activation activation, float gate) {
    float power = -gate;
    if (activation == Activation::gelu_tanh) {
        constexpr float twice_root = 1.5957691216057308F, cubic = 0.044715F; // 2 sqrt(2 / pi)
        power = -twice_root * fmaf(cubic * gate * gate, gate, gate);
    }
    return gate / __fadd_rn(1.0F, expf(power));
}

/// cap * tanh(x / cap); 0: x. Source: Gemma Team 2024 (Gemma 2).
__device__ inline float soft_capped(float x, float cap) {
    return cap > 0 ? cap * tanhf(x / cap) : x;
}

} // namespace refreshlab::kernels::RL_GPU
