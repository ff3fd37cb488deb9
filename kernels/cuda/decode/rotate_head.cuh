#pragma once

#include "kernels/cuda/decode/steps.cuh"
#include "kernels/cuda/decode/weights.cuh"

#include <cmath>

namespace refreshlab::kernels::RL_GPU {

/// One head of q or k by a warp: norm over the head (null: none), then RoPE by the angles of its position, [head_dim / 2].
/// put(channel, value) takes the results.
template <WeightType type, typename Put>
__device__ inline void rotate_head(const float* head, const void* norm, float eps, const float* cosines,
                                   const float* sines, int head_dim, const Put& put) {
    constexpr int pairs_of_lane = static_cast<int>(decode::most_head_dim) / 2 / 32;
    const int lane = static_cast<int>(threadIdx.x % 32), half = head_dim / 2;
    float a[pairs_of_lane], b[pairs_of_lane], cosine[pairs_of_lane], sine[pairs_of_lane];
    float square = 0;
#pragma unroll
    for (int i = 0; i < pairs_of_lane; ++i) {
        const int pair = lane + 32 * i;
        a[i] = b[i] = cosine[i] = sine[i] = 0;
        if (pair >= half) continue;
        a[i] = __ldcg(head + pair);
        b[i] = __ldcg(head + half + pair);
        cosine[i] = __ldg(cosines + pair);
        sine[i] = __ldg(sines + pair);
        square = fmaf(a[i], a[i], square);
        square = fmaf(b[i], b[i], square);
    }
    float inverse = 1;
    if (norm != nullptr) {
        square = warp_sum(square);
        inverse = 1.0F / sqrtf(__fadd_rn(square / static_cast<float>(head_dim), eps));
    }
#pragma unroll
    for (int i = 0; i < pairs_of_lane; ++i) {
        const int pair = lane + 32 * i;
        if (pair >= half) continue;
        if (norm != nullptr) {
            a[i] = __fmul_rn(__fmul_rn(a[i], inverse), weight_at<type>(norm, pair));
            b[i] = __fmul_rn(__fmul_rn(b[i], inverse), weight_at<type>(norm, half + pair));
        }
        // Each product is rounded, as in the references: what is cached then differs from theirs by no more than the norm does.
        put(pair, __fadd_rn(__fmul_rn(a[i], cosine[i]), -__fmul_rn(b[i], sine[i])));
        put(half + pair, __fadd_rn(__fmul_rn(b[i], cosine[i]), __fmul_rn(a[i], sine[i])));
    }
}

} // namespace refreshlab::kernels::RL_GPU
