#pragma once

#include "kernels/cuda/decode/steps.cuh"
#include "kernels/cuda/decode/weights.cuh"

#include <cmath>

namespace refreshlab::kernels::RL_GPU {

/// The rotation of a position: channels (i, i + pairs) of a head turn by angle i of [pairs]; those behind 2 pairs stay.
struct Turn {
    const float *cosines, *sines;
    int pairs;
    /// The two channels that a lane takes side by side, i below half of the head: a pair, or two that stay.
    [[nodiscard]] __device__ int first(int i) const { return i < pairs ? i : i + pairs; }
    [[nodiscard]] __device__ int second(int i, int half) const { return i < pairs ? i + pairs : i + half; }
    [[nodiscard]] __device__ float cosine(int i) const { return __ldg(cosines + i); }
    [[nodiscard]] __device__ float sine(int i) const { return __ldg(sines + i); }
};
/// With the tables' row in shared memory.
struct SharedTurn : Turn {
    [[nodiscard]] __device__ float cosine(int i) const { return cosines[i]; }
    [[nodiscard]] __device__ float sine(int i) const { return sines[i]; }
};
/// Tables [positions, pairs].
__device__ inline Turn turn_of(const float* cos, const float* sin, int pairs, int64_t position) {
    return {cos + position * pairs, sin + position * pairs, pairs};
}
/// HeadsInputs, as kernels compute with them.
struct HeadNumbers {
    NormWeights q_norm, k_norm;
    float eps;
    int turned_pairs;
};
[[nodiscard]] inline HeadNumbers head_numbers(const HeadsInputs& in) {
    RL_ASSERT(in.turned >= 0 && in.turned % 8 == 0 && in.turned <= in.head_dim);
    const int64_t turned = in.turned > 0 ? in.turned : in.head_dim;
    return {norm_weights(in.q_norm, in.norm_offset), norm_weights(in.k_norm, in.norm_offset),
            static_cast<float>(in.eps), in.cos == nullptr ? 0 : static_cast<int>(turned / 2)};
}

/// One head of q or k by a warp: norm over the head, where there is one, then RoPE. head(channel) gives its numbers, put(channel, value)
/// takes the results.
template <WeightType type, typename Head, typename Rotation, typename Put>
__device__ inline void rotate_numbers(const Head& head, const NormWeights& norm, float eps,
                                      const Rotation& turn, int head_dim, const Put& put) {
    constexpr int pairs_of_lane = static_cast<int>(decode::most_head_dim) / 2 / 32;
    const int lane = static_cast<int>(threadIdx.x % 32), half = head_dim / 2;
    float a[pairs_of_lane], b[pairs_of_lane], cosine[pairs_of_lane], sine[pairs_of_lane];
    float square = 0;
#pragma unroll
    for (int i = 0; i < pairs_of_lane; ++i) {
        const int pair = lane + 32 * i;
        a[i] = b[i] = sine[i] = 0;
        cosine[i] = 1;
        if (pair >= half) continue;
        a[i] = head(turn.first(pair));
        b[i] = head(turn.second(pair, half));
        if (pair < turn.pairs) {
            cosine[i] = turn.cosine(pair);
            sine[i] = turn.sine(pair);
        }
        square = fmaf(a[i], a[i], square);
        square = fmaf(b[i], b[i], square);
    }
    float inverse = 1;
    if (norm) {
        square = warp_sum(square);
        inverse = 1.0F / sqrtf(__fadd_rn(square / static_cast<float>(head_dim), eps));
    }
#pragma unroll
    for (int i = 0; i < pairs_of_lane; ++i) {
        const int pair = lane + 32 * i;
        if (pair >= half) continue;
        const int first = turn.first(pair), second = turn.second(pair, half);
        if (norm) {
            a[i] = __fmul_rn(__fmul_rn(a[i], inverse), weight_at<type>(norm, first));
            b[i] = __fmul_rn(__fmul_rn(b[i], inverse), weight_at<type>(norm, second));
        }
        // Each product is rounded, as in the references: what is cached then differs from theirs by no more than the norm does.
        put(first, __fadd_rn(__fmul_rn(a[i], cosine[i]), -__fmul_rn(b[i], sine[i])));
        put(second, __fadd_rn(__fmul_rn(b[i], cosine[i]), __fmul_rn(a[i], sine[i])));
    }
}
/// Of global memory, which an earlier launch has written.
template <WeightType type, typename Put>
__device__ inline void rotate_head(const float* head, const NormWeights& norm, float eps, const Turn& turn,
                                   int head_dim, const Put& put) {
    rotate_numbers<type>([head](int channel) { return __ldcg(head + channel); }, norm, eps, turn, head_dim,
                         put);
}

} // namespace refreshlab::kernels::RL_GPU
