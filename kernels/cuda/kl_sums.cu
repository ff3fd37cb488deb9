#include "kernels/cuda/row_segments.cuh"

/// Sums of KL(p || q) of rows of logits: (max, sum, sum e^(zp - max) (zp - zq)) of p and (max, sum) of q, in one pass over both.
/// Grid [segments, rows], 256 threads; p, q [rows, vocab] fp32, parts [rows, segments]. Source: kernels/shared/row_accumulators.h.
namespace refreshlab::kernels::RL_GPU {
namespace {

__global__ void kl_sums_kernel(const float* p, const float* q, int64_t vocab, shared::KlSums* parts) {
    const int64_t row = static_cast<int64_t>(blockIdx.y) * vocab;
    shared::KlSums sums;
    const Run run = run_of_thread(vocab);
    for (int64_t i = run.begin; i < run.end; ++i)
        sums.push(p[row + i], q[row + i]);
    sums = merge_block(sums);
    if (threadIdx.x == 0) parts[static_cast<int64_t>(blockIdx.y) * gridDim.x + blockIdx.x] = sums;
}

} // namespace

void launch_kl_sums(const float* p, const float* q, int64_t rows, int64_t vocab, shared::KlSums* parts,
                    shared::KlSums* out, void* stream) {
    const auto s = static_cast<cudaStream_t>(stream);
    for (int64_t first = 0; first < rows; first += most_grid_rows) {
        const int64_t count = rows - first < most_grid_rows ? rows - first : most_grid_rows;
        launch(kl_sums_kernel, segment_grid(vocab, count), row_threads, 0, s, p + first * vocab,
               q + first * vocab, vocab, parts + first * num_segments(vocab));
    }
    merge_parts(parts, rows, num_segments(vocab), out, s);
}

} // namespace refreshlab::kernels::RL_GPU
