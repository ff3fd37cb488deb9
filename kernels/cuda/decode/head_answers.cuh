#pragma once

#include "kernels/cuda/decode/decode_kernels.h"
#include "kernels/cuda/decode/head_draw.cuh"
#include "kernels/cuda/decode/key_lists.cuh"
#include "kernels/cuda/decode/warp_folds.cuh"
#include "kernels/cuda/decode/weights.cuh"
#include "kernels/shared/top_k.h"

#include <cmath>

/// Answers about the token's row, by the blocks that make its logits: statistics of all logits z, (max z, sum e^(z - max), the same weighted by
/// z - max and its square, arg max, bad numbers), and the k largest keys of kernels/shared/top_k.h.
///
/// Levels  each block of 64 logits leaves its sums and its k largest; the last block of 64 neighbours to end merges those; the last of these blocks
///         merges all and tells the host. Whether a block is the last hangs on the order in which they end, what it merges does not.
/// Sums    double (kernels/shared/row_accumulators.h). One warp has two logits a lane, later two parts a lane: first their maximum, then each
///         relative to it, so that an exponential is waited for once, then a tree over the lanes. More than 64 parts are merged in turns.
/// Top-k   of a block: a key's rank is the number of larger keys, one thread a key. Of parts: keys in registers, and k rounds of the largest; of
///         many keys lists are merged (key_lists.cuh). Keys never tie, so the list is the sorted top k.
/// Draw    head_draw.cuh, where the step has a temperature: each level's sum of weights by a warp that has nothing else to do, and the walk by one
///         of the last block.
/// Asked   the block that makes the logit of the token that the host asks about leaves it too.
/// Host    answers first, then behind a system fence the step's sequence number, which the host polls.
/// Source  online softmax, Milakov and Gimelshein 2018; last block: CUDA C++ Programming Guide, "Memory Fence Functions"; sampling and statistics
///         where logits are born: FlashSampling, arXiv 2603.15854.
namespace refreshlab::kernels::RL_GPU::head_answers {

constexpr int of_block = static_cast<int>(decode::head_outputs_per_block);
constexpr int of_group = static_cast<int>(decode::answer_group);
static_assert(of_block == 64 && of_group == 64, "a warp has two a lane");
constexpr int draw_warp = 3; ///< of a block's logits: the ones in front have sums and keys
constexpr int merge_warp = 1;

/// Shared memory of a block.
struct Memory {
    float logits[of_block]; ///< of the token's row; minus infinity behind its end
    uint64_t best[most_answer_keys];
    uint64_t of_warp[2][16];
    bool last;
};

/// Of the block's logits, by a warp. \param first  id of the first \param count  that are there
__device__ inline shared::SoftmaxSums sums_of_logits(const float* logits, int64_t first, int count) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    shared::SoftmaxSums sums;
    float z[2], max = -INFINITY;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        const int i = 32 * j + lane;
        z[j] = logits[i];
        const bool bad = i < count && !shared::is_finite_bits(z[j]);
        if (bad) z[j] = -INFINITY;
        sums.num_bad += __popc(__ballot_sync(0xFFFFFFFFU, bad));
        max = fmaxf(max, z[j]);
    }
    max = warp_max(max);
    if (max == -INFINITY) return sums;
    sums.max = static_cast<double>(max);
    double sum = 0, weighted = 0, squared = 0;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        const unsigned best = __ballot_sync(0xFFFFFFFFU, z[j] == max);
        if (sums.argmax < 0 && best != 0) sums.argmax = first + 32 * j + __ffs(static_cast<int>(best)) - 1;
        if (z[j] == -INFINITY) continue;
        const double d = static_cast<double>(z[j]) - sums.max, e = exp(d);
        sum += e;
        weighted += e * d;
        squared += e * d * d;
    }
    sums.sum = total(sum);
    sums.weighted = total(weighted);
    sums.squared = total(squared);
    return sums;
}

/// Of n parts in the order of their ids, by a warp.
__device__ inline shared::SoftmaxSums merged_sums(const shared::SoftmaxSums* parts, int n) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    constexpr int64_t none = INT64_MAX;
    shared::SoftmaxSums all;
    for (int begin = 0; begin < n; begin += 64) {
        shared::SoftmaxSums mine[2], chunk;
#pragma unroll
        for (int j = 0; j < 2; ++j)
            if (begin + 32 * j + lane < n) mine[j] = parts[begin + 32 * j + lane];
        chunk.num_bad = total(mine[0].num_bad + mine[1].num_bad);
        chunk.max = over_warp(mine[0].max > mine[1].max ? mine[0].max : mine[1].max,
                              [](double a, double b) { return a > b ? a : b; });
        int64_t best = none;
#pragma unroll
        for (int j = 1; j >= 0; --j)
            if (mine[j].argmax >= 0 && mine[j].max == chunk.max) best = mine[j].argmax;
        best = over_warp(best, [](int64_t a, int64_t b) { return a < b ? a : b; });
        chunk.argmax = best == none ? -1 : best;
        mine[0].rescale(chunk.max);
        mine[1].rescale(chunk.max);
        chunk.sum = total(mine[0].sum + mine[1].sum);
        chunk.weighted = total(mine[0].weighted + mine[1].weighted);
        chunk.squared = total(mine[0].squared + mine[1].squared);
        all.merge(chunk);
    }
    return all;
}

/// to[0, k) = the k largest of the block's logits, by threads 0 .. 63 of `thread`.
__device__ inline void keys_of_logits(const float* logits, int64_t first, int64_t k, int thread,
                                      uint64_t* to) {
    const auto key = [&](int i) { return shared::top_k_key(logits[i], static_cast<uint32_t>(first + i)); };
    const uint64_t own = key(thread);
    int larger = 0;
    for (int i = 0; i < of_block; ++i)
        larger += key(i) > own ? 1 : 0;
    if (larger < k) to[larger] = own;
}

/// memory.best[0, k) = the k largest of n keys, by all threads of the block. \tparam THREADS  of it
template <int THREADS>
__device__ inline void largest_keys(const uint64_t* keys, int n, int k, Memory& memory) {
    constexpr int held = 1024 / THREADS;
    const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
    for (int begin = 0; begin < n; begin += THREADS * held) {
        uint64_t mine[held + 1]; // and one of the largest so far
#pragma unroll
        for (int i = 0; i < held; ++i) {
            const int at = begin + i * THREADS + thread;
            mine[i] = at < n ? keys[at] : shared::top_k_empty;
        }
        mine[held] = begin > 0 && thread < k ? memory.best[thread] : shared::top_k_empty;
        __syncthreads();
        for (int round = 0; round < k; ++round) {
            uint64_t best = mine[0];
#pragma unroll
            for (int i = 1; i <= held; ++i)
                best = mine[i] > best ? mine[i] : best;
            const auto larger = [](uint64_t a, uint64_t b) { return a > b ? a : b; };
            best = over_warp(best, larger);
            uint64_t* const of_warp = memory.of_warp[round % 2];
            if (thread % 32 == 0) of_warp[warp] = best;
            __syncthreads();
            best = of_warp[0];
#pragma unroll
            for (int w = 1; w < THREADS / 32; ++w)
                best = larger(best, of_warp[w]);
#pragma unroll
            for (int i = 0; i <= held; ++i)
                if (mine[i] == best) mine[i] = shared::top_k_empty;
            if (thread == 0) memory.best[round] = best;
        }
        __syncthreads();
    }
}

/// All that the block has written is seen by the last one of `blocks` to come here. \return whether this one is it
__device__ inline bool is_last(uint32_t* arrived, int blocks, Memory& memory) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        memory.last = atomicAdd(arrived, 1U) == static_cast<unsigned>(blocks - 1);
        if (memory.last) atomicExch(arrived, 0U); // for the next launch
        __threadfence();
    }
    __syncthreads();
    return memory.last;
}

/// What n parts come to.
template <int THREADS>
__device__ inline void merge(const shared::SoftmaxSums* sums, uint64_t* keys, int n, int k,
                             shared::SoftmaxSums* all_sums, uint64_t* all_keys, Memory& memory) {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < 32) {
        const shared::SoftmaxSums all = merged_sums(sums, n);
        if (thread == 0) *all_sums = all;
    }
    if (k == 0) return;
    if (k > decode::answer_rounds) return key_lists::merge<THREADS>(keys, n, k, all_keys);
    largest_keys<THREADS>(keys, n * k, k, memory);
    if (thread < k) all_keys[thread] = memory.best[thread];
}

/// Before the block's logits, and with a barrier between.
__device__ inline void prepare(Memory& memory) {
    if (threadIdx.x < of_block) memory.logits[threadIdx.x] = -INFINITY;
}

/// What the draw knows of the row's blocks, or of its groups.
__device__ inline head_draw::Parts draw_parts(const HeadAnswers& a, int first, int n) {
    return {a.sums + first, a.weights + first, n};
}

/// By a warp of the row's last block, once all groups are there.
__device__ inline void draw(const HeadAnswers& a, const StepState* state, const float* logits, int outputs,
                            int blocks, int groups) {
    const double temperature = state->temperature, share = state->share;
    const head_draw::Parts of_groups = draw_parts(a, blocks, groups);
    const head_draw::Weights row = head_draw::merged(of_groups, temperature);
    const int token = share < 0
                          ? -1
                          : head_draw::token_at(share, temperature, row, of_groups, draw_parts(a, 0, blocks),
                                                of_group, of_block, logits, outputs);
    if (threadIdx.x % 32 != 0) return;
    a.to->total = row.sum;
    a.to->drawn = token;
    if (token >= 0) a.to->drawn_logit = __ldcg(logits + token);
}

/// After them; all threads of the block come here. Its number among those of the row is blockIdx.y. \param row  the token's logits, [outputs]
template <int THREADS>
__device__ inline void answer(const HeadAnswers& a, const StepState* state, const float* row, int outputs,
                              Memory& memory) {
    const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, k = static_cast<int>(a.top_k);
    const int block = static_cast<int>(blockIdx.y), blocks = static_cast<int>(gridDim.y);
    const int group = block / of_group, groups = (blocks + of_group - 1) / of_group;
    const int64_t first = int64_t{block} * of_block;
    const double temperature = state->temperature;
    const bool draws = temperature > 0;
    __syncthreads(); // the logits are there
    if (thread < 32) {
        const int count = outputs - block * of_block < of_block ? outputs - block * of_block : of_block;
        const shared::SoftmaxSums sums = sums_of_logits(memory.logits, first, count);
        if (thread == 0) a.sums[block] = sums;
    } else if (thread < 32 + of_block && k > 0) {
        keys_of_logits(memory.logits, first, k, thread - 32, a.keys + int64_t{block} * k);
    } else if (warp == draw_warp && draws) {
        const double sum = head_draw::sum_of_logits(memory.logits, temperature);
        if (thread % 32 == 0) a.weights[block] = sum;
    }
    const int64_t asked = int64_t{state->asked} - first;
    if (thread == 0 && asked >= 0 && asked < of_block) *a.asked = memory.logits[asked];
    const int begin = group * of_group, in_group = blocks - begin < of_group ? blocks - begin : of_group;
    if (!is_last(a.arrived + 1 + group, in_group, memory)) return;
    if (warp == merge_warp && draws) {
        const double sum = head_draw::merged(draw_parts(a, begin, in_group), temperature).sum;
        if (thread % 32 == 0) a.weights[blocks + group] = sum;
    }
    merge<THREADS>(a.sums + begin, a.keys + int64_t{begin} * k, in_group, k, a.sums + blocks + group,
                   a.keys + int64_t{blocks + group} * k, memory);
    if (!is_last(a.arrived, groups, memory)) return;
    for (int64_t i = thread; i < a.num_numbers; i += THREADS)
        a.numbers_to[i] = __ldcg(a.numbers + i);
    if (warp == merge_warp && draws) draw(a, state, row, outputs, blocks, groups);
    merge<THREADS>(a.sums + blocks, a.keys + int64_t{blocks} * k, groups, k, &a.to->sums, a.to->keys, memory);
    __syncthreads();
    if (thread != 0) return;
    if (state->asked >= 0) a.to->asked_logit = __ldcg(a.asked);
    __threadfence_system();
    *static_cast<volatile uint64_t*>(&a.to->sequence) = state->sequence;
}

} // namespace refreshlab::kernels::RL_GPU::head_answers
