#include "kernels/cuda/decode/attention_rows.h"
#include "kernels/cuda/decode/steps.cuh"
#include "kernels/shared/half_types.h"

/// p[h, j] = e^(score[h, j] - max[h]) / sum[h] for the positions j that row 0 reads, 0 for those before a sliding window.
///
/// Grid [splits of the capacity, heads, taps], one thread a position; blocks behind the position end at once. A warp writes 32 numbers
/// beside each other, so the host's memory gets whole transactions.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr unsigned threads = static_cast<unsigned>(decode::split_positions);

__global__ void __launch_bounds__(threads) attention_rows_kernel(AttentionRowsInputs in) {
    grid_dependency_wait();
    const int64_t position = in.state->position;
    const int64_t j = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
    if (j <= position) {
        const int64_t head = blockIdx.y, tap = blockIdx.z;
        const int64_t window = in.windows[in.layers[tap]];
        const int64_t row = tap * in.heads + head;
        float p = 0;
        if (window == 0 || j > position - window)
            p = expf(in.scores[row * in.capacity + j] - in.score_sums[row * 2]) / in.score_sums[row * 2 + 1];
        const int64_t to = tap * in.heads * in.capacity + head * (position + 1) + j;
        if (in.halves != nullptr) in.halves[to] = shared::float_to_half(p);
        if (in.floats != nullptr) in.floats[to] = p;
    }
    __threadfence_system(); // before the answers' sequence number, which a later kernel writes
}

} // namespace

void launch_attention_rows(const AttentionRowsInputs& in, void* stream) {
    launch_step(in.dependent, attention_rows_kernel, decode::attention_rows(in.heads, in.taps, in.capacity),
                stream, in);
}

} // namespace refreshlab::kernels::RL_GPU
