#include "kernels/cuda/row_segments.cuh"

/// Softmax sums of rows: out[r] = (max z, sum e^(z - max), the same weighted by z - max and its square, arg max, bad numbers).
/// Grid [segments, rows], 256 threads; logits [rows, vocab] fp32, parts [rows, segments].
/// Source: online softmax, Milakov and Gimelshein 2018 (kernels/shared/row_accumulators.h).
namespace refreshlab::kernels::RL_GPU {
namespace {

__global__ void row_sums_kernel(const float* logits, int64_t vocab, shared::SoftmaxSums* parts) {
    const float* const row = logits + static_cast<int64_t>(blockIdx.y) * vocab;
    shared::SoftmaxSums sums;
    const Run run = run_of_thread(vocab);
    for (int64_t i = run.begin; i < run.end; ++i)
        sums.push(row[i], i);
    sums = merge_block(sums);
    if (threadIdx.x == 0) parts[static_cast<int64_t>(blockIdx.y) * gridDim.x + blockIdx.x] = sums;
}

} // namespace

void launch_row_sums(const float* logits, int64_t rows, int64_t vocab, shared::SoftmaxSums* parts,
                     shared::SoftmaxSums* out, void* stream) {
    const auto s = static_cast<cudaStream_t>(stream);
    for (int64_t first = 0; first < rows; first += most_grid_rows) {
        const int64_t count = rows - first < most_grid_rows ? rows - first : most_grid_rows;
        launch(row_sums_kernel, segment_grid(vocab, count), row_threads, 0, s, logits + first * vocab, vocab,
               parts + first * num_segments(vocab));
    }
    merge_parts(parts, rows, num_segments(vocab), out, s);
}

} // namespace refreshlab::kernels::RL_GPU
