#include "kernels/cuda/decode/row_answers.h"
#include "kernels/cuda/decode/steps.cuh"
#include "kernels/cuda/row_segments.cuh"
#include "kernels/shared/top_k.h"

/// Statistics and top-k of one row of logits, z [vocab] fp32: (max z, sum e^(z - max), the same weighted by z - max and its square,
/// arg max, bad numbers) and the k largest keys of kernels/shared/top_k.h.
///
/// Grid [segments] of 4,096 logits, 256 threads. Each block leaves its sums and keys in `parts` and `keys`; the block that arrives last
/// merges all of them in index order, so that the order of arrival changes no bit. The host polls `sequence`, which is written behind a
/// system fence after everything else.
/// Source: online softmax, Milakov and Gimelshein 2018; last block: CUDA C++ Programming Guide, "Memory Fence Functions".
namespace refreshlab::kernels::RL_GPU {
namespace {

static_assert(decode::answer_threads == row_threads && decode::answer_logits == segment);

/// k rounds, each taking the largest key below the last one. `key(i)` gives candidate i of n; `take(round, key)` gets the result.
template <typename Key, typename Take>
__device__ void largest_keys(int64_t n, int64_t k, const Key& key, const Take& take) {
    uint64_t limit = ~uint64_t{0};
    for (int64_t round = 0; round < k; ++round) {
        uint64_t best = shared::top_k_empty;
        for (int64_t i = threadIdx.x; i < n; i += row_threads) {
            const uint64_t candidate = key(i);
            if (candidate < limit && candidate > best) best = candidate;
        }
        limit = block_max(best);
        if (threadIdx.x == 0) take(round, limit);
    }
}

__global__ void __launch_bounds__(row_threads) row_answers_kernel(RowAnswersInputs in) {
    grid_dependency_wait();
    const Run run = run_of_thread(in.vocab);
    shared::SoftmaxSums sums;
    for (int64_t i = run.begin; i < run.end; ++i)
        sums.push(in.logits[i], i);
    sums = merge_block(sums);
    const int64_t first = static_cast<int64_t>(blockIdx.x) * segment;
    const int64_t count = in.vocab - first < segment ? in.vocab - first : segment;
    uint64_t* const keys = in.keys + static_cast<int64_t>(blockIdx.x) * in.top_k;
    largest_keys(
        count, in.top_k,
        [&](int64_t i) { return shared::top_k_key(in.logits[first + i], static_cast<uint32_t>(first + i)); },
        [&](int64_t round, uint64_t key) { keys[round] = key; });

    __shared__ bool last;
    if (threadIdx.x == 0) {
        in.parts[blockIdx.x] = sums;
        __threadfence(); // before the count, so that the last block sees it
        last = atomicAdd(in.arrived, 1U) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    DeviceAnswers& answers = *in.answers;
    largest_keys(
        static_cast<int64_t>(gridDim.x) * in.top_k, in.top_k, [&](int64_t i) { return in.keys[i]; },
        [&](int64_t round, uint64_t key) { answers.keys[round] = key; });
    if (threadIdx.x != 0) return;
    shared::SoftmaxSums all;
    for (unsigned s = 0; s < gridDim.x; ++s)
        all.merge(in.parts[s]);
    answers.sums = all;
    *in.arrived = 0;
    __threadfence_system();
    *static_cast<volatile uint64_t*>(&answers.sequence) = in.state->sequence;
}

} // namespace

int64_t answer_segments(int64_t vocab) {
    return num_segments(vocab);
}

void launch_row_answers(const RowAnswersInputs& in, void* stream) {
    launch_step(in.dependent, row_answers_kernel, decode::row_answers(in.vocab), stream, in);
}

} // namespace refreshlab::kernels::RL_GPU
