#include "kernels/cuda/row_segments.cuh"
#include "kernels/shared/top_k.h"

/// The k largest logits of a row, as keys (kernels/shared/top_k.h): a block finds those of its segment, one block those of all.
/// Each of k rounds takes the largest key below the last one; keys never tie. Grid [segments], then [1]; 256 threads.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int threads = row_threads;

/// k rounds, each taking the largest key below the last one. Keys never tie, so the list is the sorted top k.
__global__ void top_k_segment_kernel(const float* row, int64_t vocab, int64_t k, uint64_t* keys) {
    constexpr int per_thread = segment / threads;
    uint64_t mine[per_thread];
    for (int i = 0; i < per_thread; ++i) {
        const int64_t id = static_cast<int64_t>(blockIdx.x) * segment + i * threads + threadIdx.x;
        mine[i] = id < vocab ? shared::top_k_key(row[id], static_cast<uint32_t>(id)) : shared::top_k_empty;
    }
    uint64_t limit = ~uint64_t{0};
    for (int64_t round = 0; round < k; ++round) {
        uint64_t best = shared::top_k_empty;
        for (int i = 0; i < per_thread; ++i) {
            if (mine[i] < limit && mine[i] > best) best = mine[i];
        }
        limit = block_max(best);
        if (threadIdx.x == 0) keys[static_cast<int64_t>(blockIdx.x) * k + round] = limit;
    }
}

__global__ void top_k_merge_kernel(const uint64_t* keys, int64_t count, int64_t k, uint64_t* out) {
    uint64_t limit = ~uint64_t{0};
    for (int64_t round = 0; round < k; ++round) {
        uint64_t best = shared::top_k_empty;
        for (int64_t i = threadIdx.x; i < count; i += threads) {
            if (keys[i] < limit && keys[i] > best) best = keys[i];
        }
        limit = block_max(best);
        if (threadIdx.x == 0) out[round] = limit;
    }
}

} // namespace

void launch_top_k(const float* row, int64_t vocab, int64_t k, uint64_t* keys, uint64_t* out, void* stream) {
    const auto s = static_cast<cudaStream_t>(stream);
    launch(top_k_segment_kernel, segment_grid(vocab, 1), row_threads, 0, s, row, vocab, k, keys);
    launch(top_k_merge_kernel, 1, row_threads, 0, s, keys, num_segments(vocab) * k, k, out);
}

} // namespace refreshlab::kernels::RL_GPU
