#pragma once

#include "kernels/cuda/decode/warp_folds.cuh"
#include "kernels/shared/row_accumulators.h"

#include <cstdint>

/// The draw of a token by temperature, where the logits z of its row are born: weights w = e^((z - max) / T), their sum, and the token at a share of it.
///
/// Walk    as choose_token() (engine/model/sampler.h) goes over the row: by id, to the first token whose weight takes what was passed beyond
///         share * sum. Here over the groups of blocks, the blocks of one group and the logits of one block. A token whose weight is 0 is never drawn.
/// Sums    double, each part relative to its own maximum. Their order hangs on the number of parts alone, and is not the host's: the token can be
///         another one only where share * sum lies within their rounding of an edge between two tokens.
/// Numbers that are none count as minus infinity.
/// Source  inversion of the distribution function, by sums of parts: FlashSampling, arXiv 2603.15854, draws by Gumbel noise instead, which would be
///         another text for the same seed.
namespace refreshlab::kernels::RL_GPU::head_draw {

/// 0 where the host's weight is (kernels/ops/sampling_weights.h), and where there is no maximum.
__device__ inline double weight(double z, double max, double temperature) {
    const double d = (z - max) / temperature;
    return d >= -708.0 ? exp(d) : 0.0;
}
__device__ inline double finite_or_least(float z) {
    return static_cast<double>(shared::is_finite_bits(z) ? z : -INFINITY);
}

/// Weights of parts: each has its maximum, and their sum relative to that.
struct Parts {
    const shared::SoftmaxSums* sums;
    const double* weights;
    int n;
};
struct Weights {
    double max, sum;
};

/// Of the 64 logits of a block, by a warp.
__device__ inline double sum_of_logits(const float* logits, double temperature) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const double low = finite_or_least(logits[lane]), high = finite_or_least(logits[32 + lane]);
    const double max = largest(low > high ? low : high);
    return total(weight(low, max, temperature) + weight(high, max, temperature));
}

/// Of all parts together, by a warp.
__device__ inline Weights merged(const Parts& parts, double temperature) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    Weights all{-INFINITY, 0};
    for (int i = lane; i < parts.n; i += 32)
        all.max = parts.sums[i].max > all.max ? parts.sums[i].max : all.max;
    all.max = largest(all.max);
    for (int i = lane; i < parts.n; i += 32)
        all.sum += parts.weights[i] * weight(parts.sums[i].max, all.max, temperature);
    all.sum = total(all.sum);
    return all;
}

/// The first of n parts whose weight takes what was passed beyond the target, by a warp; the last that has any, where rounding lets none; -1: none
/// has. \param passed  what stands before the parts; afterwards, before the one that is found
template <typename WeightOf>
__device__ inline int part_at(int n, const WeightOf& weight_of, double target, double& passed) {
    constexpr unsigned all = 0xFFFFFFFFU;
    const int lane = static_cast<int>(threadIdx.x % 32);
    int found = -1;
    double before = passed;
    for (int begin = 0; begin < n; begin += 32) {
        const double own = begin + lane < n ? weight_of(begin + lane) : 0;
        double up_to = own; // with those of the lanes below
#pragma unroll
        for (int lanes = 1; lanes < 32; lanes *= 2) {
            const double below = __shfl_up_sync(all, up_to, static_cast<unsigned>(lanes));
            if (lane >= lanes) up_to += below;
        }
        const double below = __shfl_up_sync(all, up_to, 1U);
        const double here = passed + (lane > 0 ? below : 0.0);
        const unsigned some = __ballot_sync(all, own > 0),
                       beyond = __ballot_sync(all, own > 0 && passed + up_to > target);
        if (some != 0) {
            const int at =
                beyond != 0 ? __ffs(static_cast<int>(beyond)) - 1 : 31 - __clz(static_cast<int>(some));
            found = begin + at;
            before = __shfl_sync(all, here, at);
        }
        if (beyond != 0) break;
        passed += __shfl_sync(all, up_to, 31);
    }
    passed = before;
    return found;
}

/// The token at `share` of the sum of weights, by a warp; -1 where no weight is above 0.
/// \param groups  whose weights `row` merges; `blocks` are the parts that they were merged of, of_group a group \param logits  [outputs]
__device__ inline int token_at(double share, double temperature, const Weights& row, const Parts& groups,
                               const Parts& blocks, int of_group, int of_block, const float* logits,
                               int outputs) {
    const double target = share * row.sum;
    double passed = 0;
    const auto part_of = [&](const Parts& parts, int first, int n) {
        const int at = part_at(
            n,
            [&](int i) {
                return parts.weights[first + i] * weight(parts.sums[first + i].max, row.max, temperature);
            },
            target, passed);
        return at < 0 ? -1 : first + at;
    };
    const auto rest = [](int all, int first, int most) { return all - first < most ? all - first : most; };
    const int group = part_of(groups, 0, groups.n);
    if (group < 0) return -1;
    const int first = group * of_group, block = part_of(blocks, first, rest(blocks.n, first, of_group));
    if (block < 0) return -1;
    const int id = block * of_block;
    const int token = part_at(
        rest(outputs, id, of_block),
        [&](int i) { return weight(finite_or_least(__ldcg(logits + id + i)), row.max, temperature); }, target,
        passed);
    return token < 0 ? -1 : id + token;
}

} // namespace refreshlab::kernels::RL_GPU::head_draw
