#pragma once

#include "kernels/cuda/build.h"

/// What the lanes of a warp come to, each number the same in every lane. The tree of a sum hangs on nothing.
namespace refreshlab::kernels::RL_GPU {

template <typename T, typename Combine>
__device__ inline T over_warp(T x, const Combine& combine) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
        x = combine(x, __shfl_xor_sync(0xFFFFFFFFU, x, lanes));
    return x;
}
template <typename T>
__device__ inline T total(T x) {
    return over_warp(x, [](T a, T b) { return a + b; });
}
template <typename T>
__device__ inline T largest(T x) {
    return over_warp(x, [](T a, T b) { return a > b ? a : b; });
}

} // namespace refreshlab::kernels::RL_GPU
