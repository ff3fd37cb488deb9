#pragma once

#include "kernels/cuda/decode/weights.cuh"

#include <cmath>

/// Norms of a row by a whole block: RMSNorm, Zhang and Sennrich 2019.
namespace refreshlab::kernels::RL_GPU {

__device__ inline void add_squares(const float4& four, float& sum) {
    sum = fmaf(four.x, four.x, sum);
    sum = fmaf(four.y, four.y, sum);
    sum = fmaf(four.z, four.z, sum);
    sum = fmaf(four.w, four.w, sum);
}
/// Of the threads' sums of squares: lanes add up as a tree, warps in ascending order. All threads of the block come here.
/// \param parts  shared, nobody reads it any more
template <int WARPS>
__device__ float inverse_rms_of_block(float sum, float (&parts)[WARPS], float width, float eps) {
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
#pragma unroll
    for (int w = 0; w < WARPS; ++w)
        sum = __fadd_rn(sum, parts[w]);
    return 1.0F / sqrtf(__fadd_rn(sum / width, eps));
}
/// Four numbers from `i` on, times factor and norm.
template <WeightType type>
__device__ float4 normed(const float4& four, float factor, const NormWeights& norm, int64_t i) {
    const float4 weights = four_weights_at<type>(norm, i);
    return make_float4(
        __fmul_rn(__fmul_rn(four.x, factor), weights.x), __fmul_rn(__fmul_rn(four.y, factor), weights.y),
        __fmul_rn(__fmul_rn(four.z, factor), weights.z), __fmul_rn(__fmul_rn(four.w, factor), weights.w));
}

} // namespace refreshlab::kernels::RL_GPU
