#pragma once

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/row_launchers.cuh"

/// Sums over rows of logits. A row is cut into segments of fixed length, one block each; every thread pushes a contiguous run of
/// logits into the accumulator (double, one pass), a block merges its threads by a tree, a second small kernel merges the segments in
/// index order. Fixed order everywhere and no atomics: the same bits on every run. Bounded by double-precision exponentials, not by
/// the 0.5 MB of a big row (it is in L2 after the head).
namespace refreshlab::kernels::RL_GPU {

inline constexpr int row_threads = 256;

/// Merges the block's accumulators into thread 0's, lower ids on the left.
template <typename Sums>
__device__ Sums merge_block(Sums mine) {
    __shared__ Sums sums[row_threads];
    sums[threadIdx.x] = mine;
    __syncthreads();
    for (int step = 1; step < row_threads; step *= 2) {
        if (threadIdx.x % (2 * step) == 0) sums[threadIdx.x].merge(sums[threadIdx.x + step]);
        __syncthreads();
    }
    return sums[0];
}

/// Contiguous run of a segment for each thread: keeps "first maximum" a matter of merging left to right.
struct Run {
    int64_t begin, end;
};
__device__ inline Run run_of_thread(int64_t vocab) {
    constexpr int64_t length = segment / row_threads;
    const int64_t begin =
        static_cast<int64_t>(blockIdx.x) * segment + static_cast<int64_t>(threadIdx.x) * length;
    const int64_t end = begin + length;
    return {begin, end < vocab ? end : vocab};
}

/// One thread per row: segments in index order.
template <typename Sums>
__global__ void merge_parts_kernel(const Sums* parts, int64_t rows, int64_t segments, Sums* out) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    Sums sums;
    for (int64_t s = 0; s < segments; ++s)
        sums.merge(parts[row * segments + s]);
    out[row] = sums;
}

template <typename Sums>
void merge_parts(const Sums* parts, int64_t rows, int64_t segments, Sums* out, cudaStream_t stream) {
    const unsigned blocks = static_cast<unsigned>((rows + row_threads - 1) / row_threads);
    launch(merge_parts_kernel<Sums>, blocks, row_threads, 0, stream, parts, rows, segments, out);
}

/// Largest of the block's keys; every thread gets it.
__device__ inline uint64_t block_max(uint64_t mine) {
    __shared__ uint64_t keys[row_threads];
    __syncthreads(); // the previous round's result has been read
    keys[threadIdx.x] = mine;
    __syncthreads();
    for (int step = row_threads / 2; step > 0; step /= 2) {
        if (static_cast<int>(threadIdx.x) < step && keys[threadIdx.x + step] > keys[threadIdx.x]) {
            keys[threadIdx.x] = keys[threadIdx.x + step];
        }
        __syncthreads();
    }
    return keys[0];
}

inline dim3 segment_grid(int64_t vocab, int64_t rows) {
    return {static_cast<unsigned>(num_segments(vocab)), static_cast<unsigned>(rows), 1};
}
inline constexpr int64_t most_grid_rows = 65535; // the y extent of a grid

} // namespace refreshlab::kernels::RL_GPU
