#pragma once

#include "kernels/cuda/decode/weights.cuh"

#include <cmath>

/// Splits of attention become one: what attention by single blocks (attention.cuh) and by clusters (qkv_attention.cuh) have in common. What
/// splits have left, `Left`, gives for a head of the KV head's group, or a place (four channels of a head, counted over the group):
///   float4 value(place, split)   sums of values
///   float2 sum(head, split)      maximum of the scores, sum of e^(score - maximum)
///   float weighted_sum(head, split)
/// Order   a team of threads takes every second or third run of eight splits in index order, then teams ascending: a place's bits do not
///         hang on which threads have it, or on where what is left stands.
namespace refreshlab::kernels::RL_GPU::attention {

/// Of a head's scores: their maximum, and the sum of e^(score - maximum), in global memory as a float2; for entropies also that sum weighted by
/// score - maximum.
struct Sums {
    float max, sum, weighted;
};

/// Splits of a head, added up: four channels of its values, relative to e^max.
struct Merged {
    float4 values = make_float4(0, 0, 0, 0);
    float max = -INFINITY, sum = 0;

    __device__ void rescale(float new_max) {
        const float factor = expf(__fadd_rn(max, -new_max)); // 0 where nothing was added
        values = make_float4(__fmul_rn(values.x, factor), __fmul_rn(values.y, factor),
                             __fmul_rn(values.z, factor), __fmul_rn(values.w, factor));
        sum = __fmul_rn(sum, factor);
        max = new_max;
    }
    /// \param of_max  not above max
    __device__ void add(const float4& of_values, float of_max, float of_sum) {
        const float weight = expf(__fadd_rn(of_max, -max));
        values = make_float4(fmaf(weight, of_values.x, values.x), fmaf(weight, of_values.y, values.y),
                             fmaf(weight, of_values.z, values.z), fmaf(weight, of_values.w, values.w));
        sum = fmaf(weight, of_sum, sum);
    }
};

/// A team's share of a head's splits, for one place: every `teams`-th run of splits, a run read at once.
template <typename Left>
__device__ inline Merged merge_share(int first_split, int last_split, const Left& left, int place, int head,
                                     int team, int teams) {
    constexpr int at_once = static_cast<int>(decode::merge_at_once);
    Merged mine;
    for (int first = first_split + team * at_once; first <= last_split; first += teams * at_once) {
        float4 value[at_once];
        float2 sum[at_once];
        float max = mine.max;
#pragma unroll
        for (int k = 0; k < at_once; ++k) {
            value[k] = make_float4(0, 0, 0, 0);
            sum[k] = make_float2(-INFINITY, 0);
            if (first + k > last_split) continue;
            value[k] = left.value(place, first + k);
            sum[k] = left.sum(head, first + k);
        }
#pragma unroll
        for (int k = 0; k < at_once; ++k)
            max = fmaxf(max, sum[k].x);
        mine.rescale(max);
#pragma unroll
        for (int k = 0; k < at_once; ++k) {
            if (first + k <= last_split) mine.add(value[k], sum[k].x, sum[k].y);
        }
    }
    return mine;
}

/// Places that a block merges: first, first + step, ...
struct MergePlaces {
    int first, step, count;
    int of_head; ///< places of a head
    int teams;   ///< 1, or so many that all threads together have room for count * teams
};
/// All threads of a block. A thread has a place; where that leaves threads over, teams of them share the splits.
/// \param memory  shared, [teams - 1, count]
/// \param finish  called once for each place: finish(place, Merged)
template <typename Left, typename Finish>
__device__ inline void merge(const MergePlaces& places, int first_split, int last_split, const Left& left,
                             Merged* memory, const Finish& finish) {
    const int thread = static_cast<int>(threadIdx.x), count = places.count, teams = places.teams;
    const int team = teams > 1 ? thread / (count > 0 ? count : 1) : 0;
    const auto share = [&](int place) {
        return merge_share(first_split, last_split, left, place, place / places.of_head, team, teams);
    };
    if (teams == 1) {
        for (int i = thread; i < count; i += static_cast<int>(blockDim.x)) {
            const int place = places.first + i * places.step;
            finish(place, share(place));
        }
        return;
    }
    Merged mine;
    const int i = thread - team * count, place = places.first + i * places.step;
    const bool there = team < teams && i < count;
    if (there) mine = share(place);
    if (there && team > 0) memory[(team - 1) * count + i] = mine;
    __syncthreads();
    if (!there || team > 0) return;
    for (int t = 1; t < teams; ++t) {
        const Merged other = memory[(t - 1) * count + i];
        mine.rescale(fmaxf(mine.max, other.max));
        mine.add(other.values, other.max, other.sum);
    }
    finish(place, mine);
}
/// Where a place's result goes, and by the first place of a head its maximum and sum.
__device__ inline void finish_place(const Merged& m, int place, int of_head, float* attended, Sums* sums) {
    if (place % of_head == 0) sums[place / of_head] = {m.max, m.sum, 0};
    reinterpret_cast<float4*>(attended)[place] =
        make_float4(m.values.x / m.sum, m.values.y / m.sum, m.values.z / m.sum, m.values.w / m.sum);
}

/// -sum p log2 p of p = e^(score - max) / sum.
__device__ inline float entropy_bits(float sum, float weighted) {
    constexpr float bits = 1.44269504F; // 1 / ln 2
    return fmaxf(__fadd_rn(logf(sum), -(weighted / sum)), 0.0F) * bits;
}
/// Of a head, by a warp, a lane a split. \param of_head  the head's maximum and sum over all splits
template <typename Left>
__device__ inline void put_entropy(int first_split, int last_split, const Left& left, int head,
                                   const Sums& of_head, float* to) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    float weighted = 0;
    for (int s = first_split + lane; s <= last_split; s += 32) {
        const float2 sums = left.sum(head, s);
        const float below = __fadd_rn(sums.x, -of_head.max);
        weighted = fmaf(expf(below), fmaf(below, sums.y, left.weighted_sum(head, s)), weighted);
    }
    weighted = warp_sum(weighted);
    if (lane == 0) *to = entropy_bits(of_head.sum, weighted);
}

} // namespace refreshlab::kernels::RL_GPU::attention
