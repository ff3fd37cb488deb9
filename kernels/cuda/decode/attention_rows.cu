#include "kernels/cuda/decode/attention_rows.h"
#include "kernels/cuda/decode/list_search.cuh"
#include "kernels/cuda/decode/steps.cuh"
#include "kernels/shared/attention_bins.h"
#include "kernels/shared/half_types.h"

/// p[h, j] = e^(score[h, j] - max[h]) / sum[h] for the positions j that row 0 reads, 0 for those before a sliding window; through lists for
/// the entries j of the head's list.
///
/// Grid [splits of the capacity, heads, taps], one thread a position; blocks behind the position, or the list, end at once. A warp writes 32
/// numbers beside each other, so the host's memory gets whole transactions.
///
/// In bins the row is their sums: grid [128 bins each, heads, taps], one thread a bin, which adds its keys in ascending order. So the bus, which
/// bounds whole rows, has little to carry; what is left are scores in the second cache, each line of which one thread reads alone.
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

constexpr unsigned bin_threads = static_cast<unsigned>(decode::attention_bin_threads);

__global__ void __launch_bounds__(bin_threads) attention_bins_kernel(AttentionRowsInputs in) {
    grid_dependency_wait();
    const int64_t bin = static_cast<int64_t>(blockIdx.x) * bin_threads + threadIdx.x;
    const int64_t head = blockIdx.y, tap = blockIdx.z, keys = in.state->position + 1;
    const int64_t width = shared::bin_width(keys, in.bins), n = shared::num_bins(keys, width);
    if (bin < n) {
        const Row row = row_of(in, tap, head);
        const int64_t window = in.windows[in.layers[tap]], from = tap * in.heads + head;
        const int64_t first = window > 0 && keys > window ? keys - window : 0; // position that is read
        int64_t begin = bin * width, end = begin + width < keys ? begin + width : keys;
        if (begin < first) begin = first;
        if (row.list != nullptr) { // positions ascend in it
            begin = first_from(row.list, static_cast<int>(row.n), begin);
            end = first_from(row.list, static_cast<int>(row.n), end);
        }
        const float* const scores = in.scores + from * in.capacity;
        const float most = in.score_sums[from * 2], all = in.score_sums[from * 2 + 1];
        const float sum =
            shared::bin_sum(begin, end, [&](int64_t j) { return expf(scores[j] - most) / all; });
        in.halves[tap * in.heads * in.capacity + head * n + bin] = shared::float_to_half(sum);
    }
    __threadfence_system(); // as above
}

} // namespace

void launch_attention_rows(const AttentionRowsInputs& in, void* stream) {
    const bool in_bins = in.halves != nullptr && in.bins > 0;
    if (in_bins)
        launch_step(in.dependent, attention_bins_kernel,
                    decode::attention_bins(in.heads, in.taps, in.capacity, in.bins), stream, in);
    AttentionRowsInputs whole = in;
    if (in_bins) whole.halves = nullptr;
    if (whole.halves == nullptr && whole.floats == nullptr) return;
    launch_step(in.dependent, attention_rows_kernel, decode::attention_rows(in.heads, in.taps, in.capacity),
                stream, whole);
}

} // namespace refreshlab::kernels::RL_GPU
