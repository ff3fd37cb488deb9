#include "kernels/cuda/row_segments.cuh"

/// Sums over the columns of N Monte-Carlo rows beside row 0: for each pass the squared deviation from the mean, and the disagreement
/// of the rows (kernels/shared/row_accumulators.h, push_mc_column). A block takes 1,024 columns; a thread keeps its own sums in
/// shared memory, [threads, passes + 1] behind ln Z of the passes; blocks are added in index order. Grid [blocks], then one thread a sum.
namespace refreshlab::kernels::RL_GPU {
namespace {

struct ColumnValue {
    const float* m_column;
    int64_t m_stride;
    __device__ float operator()(int64_t i) const { return m_column[i * m_stride]; }
};

/// Dynamic shared memory: log_z [passes], then squares [passes + 1] of every thread.
__global__ void mc_sums_kernel(const float* row0, const float* rows, int64_t passes, int64_t vocab,
                               const shared::SoftmaxSums* row_sums, double* parts) {
    double* const memory = dynamic_shared<double>();
    double* const log_z = memory;
    const int64_t width = passes + 1;
    double* const mine = memory + passes + static_cast<int64_t>(threadIdx.x) * width;
    for (int64_t i = threadIdx.x; i < passes; i += blockDim.x)
        log_z[i] = row_sums[i].log_z();
    for (int64_t i = 0; i < width; ++i)
        mine[i] = 0;
    __syncthreads();
    const int64_t begin = static_cast<int64_t>(blockIdx.x) * mc_columns_per_block;
    const int64_t limit = begin + mc_columns_per_block < vocab ? begin + mc_columns_per_block : vocab;
    for (int64_t j = begin + threadIdx.x; j < limit; j += blockDim.x) {
        mine[passes] += shared::push_mc_column(ColumnValue{rows + j, vocab}, static_cast<double>(row0[j]),
                                               log_z, passes, mine);
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
        double sum = 0;
        for (unsigned t = 0; t < blockDim.x; ++t)
            sum += memory[passes + t * width + i];
        parts[static_cast<int64_t>(blockIdx.x) * width + i] = sum;
    }
}

__global__ void mc_merge_kernel(const double* parts, int64_t blocks, int64_t width, double* out) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= width) return;
    double sum = 0;
    for (int64_t b = 0; b < blocks; ++b)
        sum += parts[b * width + i];
    out[i] = sum;
}

} // namespace

void launch_mc_sums(const float* row0, const float* rows, int64_t passes, int64_t vocab,
                    const shared::SoftmaxSums* row_sums, double* parts, double* out, void* stream) {
    const auto s = static_cast<cudaStream_t>(stream);
    // 48 KB of shared memory without asking for more: fewer threads when there are many passes.
    constexpr int64_t most_bytes = 48 * 1024;
    int64_t mc_threads = row_threads;
    const auto bytes = [passes](int64_t t) {
        return static_cast<int64_t>(sizeof(double)) * (passes + t * (passes + 1));
    };
    while (mc_threads > 1 && bytes(mc_threads) > most_bytes)
        mc_threads /= 2;
    if (bytes(mc_threads) > most_bytes)
        throw std::runtime_error("CUDA: too many Monte-Carlo passes for one block");
    const int64_t blocks = num_mc_blocks(vocab);
    launch(mc_sums_kernel, static_cast<unsigned>(blocks), static_cast<unsigned>(mc_threads),
           static_cast<size_t>(bytes(mc_threads)), s, row0, rows, passes, vocab, row_sums, parts);
    const int64_t width = passes + 1;
    launch(mc_merge_kernel, static_cast<unsigned>((width + row_threads - 1) / row_threads), row_threads, 0, s,
           parts, blocks, width, out);
}

} // namespace refreshlab::kernels::RL_GPU
