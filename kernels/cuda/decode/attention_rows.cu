#include "kernels/cuda/decode/attention_rows.h"
#include "kernels/cuda/decode/steps.cuh"
#include "kernels/shared/half_types.h"

/// p[h, j] = e^(score[h, j] - max[h]) / sum[h] for the positions j that row 0 reads, 0 for those before a sliding window; through lists for
/// the entries j of the head's list.
///
/// Grid [splits of the capacity, heads, taps], one thread a position; blocks behind the position, or the list, end at once. A warp writes 32
/// numbers beside each other, so the host's memory gets whole transactions.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr unsigned threads = static_cast<unsigned>(decode::split_positions);

/// A head's row of a tap.
struct Row {
    int64_t n, to; ///< numbers, and where they go
    const ListEntry* list;
};

__device__ Row row_of(const AttentionRowsInputs& in, int64_t tap, int64_t head) {
    const int64_t of_tap = tap * in.heads * in.capacity, n = in.state->position + 1;
    if (in.entries == nullptr) return {n, of_tap + head * n, nullptr};
    const int64_t plane = in.layers[tap] * in.kv_heads + head / (in.heads / in.kv_heads);
    return {in.counts[plane], of_tap + head * in.capacity, in.entries + plane * in.capacity};
}

__global__ void __launch_bounds__(threads) attention_rows_kernel(AttentionRowsInputs in) {
    grid_dependency_wait();
    const int64_t j = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
    const int64_t head = blockIdx.y, tap = blockIdx.z;
    const Row row = row_of(in, tap, head);
    if (j < row.n) {
        const int64_t window = in.windows[in.layers[tap]], from = tap * in.heads + head;
        const int64_t position = row.list == nullptr ? j : row.list[j].position;
        float p = 0;
        if (window == 0 || position > in.state->position - window)
            p = expf(in.scores[from * in.capacity + j] - in.score_sums[from * 2]) /
                in.score_sums[from * 2 + 1];
        if (in.halves != nullptr) in.halves[row.to + j] = shared::float_to_half(p);
        if (in.floats != nullptr) in.floats[row.to + j] = p;
    }
    __threadfence_system(); // before the answers' sequence number, which a later kernel writes
}

} // namespace

void launch_attention_rows(const AttentionRowsInputs& in, void* stream) {
    launch_step(in.dependent, attention_rows_kernel, decode::attention_rows(in.heads, in.taps, in.capacity),
                stream, in);
}

} // namespace refreshlab::kernels::RL_GPU
