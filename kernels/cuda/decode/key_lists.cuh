#pragma once

#include "kernels/cuda/build.h"
#include "kernels/shared/top_k.h"

#include <cstdint>

/// The largest keys of many sorted lists. A warp holds a list of 64 keys, largest first, in its registers, lane l the numbers l and 32 + l, and
/// takes in one list after the other: the larger of number i of one and number 63 - i of the other are the 64 largest of both, in an order that six
/// exchanges sort. Lists of fewer keys end in empty ones.
/// Cost    a list is six exchanges, whatever number of keys is wanted; k rounds for the largest one (head_answers.cuh) are cheaper for few keys.
/// Source  Batcher 1968, bitonic merge.
namespace refreshlab::kernels::RL_GPU::key_lists {

struct Held {
    uint64_t of[2] = {shared::top_k_empty, shared::top_k_empty};
};

/// A list of k keys, the last of 64 places first.
__device__ inline Held backwards(const uint64_t* keys, int k) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    Held list;
    if (63 - lane < k) list.of[0] = keys[63 - lane];
    if (31 - lane < k) list.of[1] = keys[31 - lane];
    return list;
}
__device__ inline void write(const Held& list, uint64_t* keys, int k) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    if (lane < k) keys[lane] = list.of[0];
    if (32 + lane < k) keys[32 + lane] = list.of[1];
}

/// The 64 largest of a list and of another one that stands backwards.
__device__ inline Held merged(const Held& a, const Held& backwards) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const auto larger = [](uint64_t x, uint64_t y) { return x > y ? x : y; };
    const auto smaller = [](uint64_t x, uint64_t y) { return x > y ? y : x; };
    const uint64_t first = larger(a.of[0], backwards.of[0]), second = larger(a.of[1], backwards.of[1]);
    Held list;
    list.of[0] = larger(first, second);
    list.of[1] = smaller(first, second);
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
#pragma unroll
        for (uint64_t& key : list.of) {
            const uint64_t other = __shfl_xor_sync(0xFFFFFFFFU, key, lanes);
            key = (lane & lanes) == 0 ? larger(key, other) : smaller(key, other);
        }
    }
    return list;
}

/// to[0, k) = the k largest of n lists of k keys, by all threads of the block. What the lists hold afterwards is of no use.
template <int THREADS>
__device__ inline void merge(uint64_t* keys, int n, int k, uint64_t* to) {
    constexpr int warps = THREADS / 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const auto list_of = [&](int i) { return i < n ? backwards(keys + int64_t{i} * k, k) : Held{}; };
    Held list, next = list_of(warp);
    for (int i = warp; i < n; i += warps) {
        const Held other = next;
        next = list_of(i + warps); // while this one is sorted
        list = merged(list, other);
    }
    // Of the list in its place this warp was the only reader.
    const auto leave = [&] {
        __syncwarp();
        if (warp < n) write(list, keys + int64_t{warp} * k, k);
    };
    leave();
#pragma unroll
    for (int half = warps / 2; half > 0; half /= 2) {
        __syncthreads();
        if (warp >= half) continue;
        list = merged(list, list_of(warp + half));
        if (warp >= half / 2 && half > 1) leave();
    }
    if (warp == 0) write(list, to, k);
}

} // namespace refreshlab::kernels::RL_GPU::key_lists
