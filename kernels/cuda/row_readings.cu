#include "kernels/cuda/row_segments.cuh"

/// What a teacher's pass is asked about its rows p [rows, vocab], each beside a row q of the student's (or none) and a token (or none):
/// the sums of row_sums.cu and kl_sums.cu, the token's logit and how many logits stand before it, and the softmax sums of
/// min(ln p_i, ln q_i), whose ln Z is ln of sum min(p_i, q_i) (kernels/ops/row_overlap.h).
///
/// Grid    [segments, rows], 256 threads, twice: the second pass needs ln Z of both rows. Behind each, one thread a row merges the
///         segments in index order.
/// Memory  both rows are read twice; the second time they come from the second cache as far as they fit.
/// Bound   by double-precision exponentials, as row_sums.cu.
/// Source  kernels/shared/row_accumulators.h; the overlap is 1 - total variation (Leviathan et al. 2023, theorem 3.5).
namespace refreshlab::kernels::RL_GPU {
namespace {

struct Rows {
    const float *p, *q;
    int64_t vocab;
    const int64_t *other_of, *tokens;
};

__global__ void __launch_bounds__(row_threads)
    row_readings_kernel(const Rows in, shared::RowReadingSums* parts) {
    const int64_t row = blockIdx.y, other = in.other_of[row], token = in.tokens[row];
    const float* const p = in.p + row * in.vocab;
    const float* const q = other < 0 ? nullptr : in.q + other * in.vocab;
    shared::RowReadingSums sums;
    const float own = token >= 0 ? p[token] : 0.0F;
    sums.logit = static_cast<double>(own);
    const Run run = run_of_thread(in.vocab);
    for (int64_t i = run.begin; i < run.end; ++i) {
        const float z = p[i];
        sums.p.push(z, i);
        // NaN compares as false; ties go to the lower id.
        if (token >= 0 && (z > own || (z == own && i < token))) ++sums.above;
        if (q == nullptr) continue;
        sums.q.push(q[i], i);
        sums.kl.push(z, q[i]);
    }
    sums = merge_block(sums);
    if (threadIdx.x == 0) parts[row * gridDim.x + blockIdx.x] = sums;
}

__global__ void __launch_bounds__(row_threads)
    row_overlap_kernel(const Rows in, const shared::RowReadingSums* readings, shared::SoftmaxSums* parts) {
    const int64_t row = blockIdx.y, other = in.other_of[row];
    shared::SoftmaxSums sums;
    if (other >= 0 && readings[row].p.finite() && readings[row].q.finite()) {
        const float* const p = in.p + row * in.vocab;
        const float* const q = in.q + other * in.vocab;
        const double p_log_z = readings[row].p.log_z(), q_log_z = readings[row].q.log_z();
        const Run run = run_of_thread(in.vocab);
        for (int64_t i = run.begin; i < run.end; ++i) {
            const double a = static_cast<double>(p[i]) - p_log_z, b = static_cast<double>(q[i]) - q_log_z;
            sums.push(static_cast<float>(a < b ? a : b), i);
        }
    }
    sums = merge_block(sums);
    if (threadIdx.x == 0) parts[row * gridDim.x + blockIdx.x] = sums;
}

} // namespace

void launch_row_readings(const RowReadingsInputs& in, void* stream) {
    const auto s = static_cast<cudaStream_t>(stream);
    const int64_t segments = num_segments(in.vocab);
    for (int64_t first = 0; first < in.rows; first += most_grid_rows) {
        const int64_t count = in.rows - first < most_grid_rows ? in.rows - first : most_grid_rows;
        const Rows rows{in.p + first * in.vocab, in.q, in.vocab, in.other_of + first, in.tokens + first};
        launch(row_readings_kernel, segment_grid(in.vocab, count), row_threads, 0, s, rows, in.parts);
        merge_parts(in.parts, count, segments, in.readings + first, s);
        launch(row_overlap_kernel, segment_grid(in.vocab, count), row_threads, 0, s, rows,
               static_cast<const shared::RowReadingSums*>(in.readings + first), in.overlap_parts);
        merge_parts(in.overlap_parts, count, segments, in.overlaps + first, s);
    }
}

} // namespace refreshlab::kernels::RL_GPU
