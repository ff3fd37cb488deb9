#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/row_launchers.cuh"
#include "kernels/shared/top_k.h"

/// Story: a row is cut into segments of fixed length, one block each; every thread pushes its logits into the shared
/// accumulator (double, one pass), a block merges its threads by a tree, a second small kernel merges the segments in
/// index order. Fixed order everywhere and no atomics: the same bits on every run. Bounded by double-precision
/// exponentials, not by the 0.5 MB of a big row (it is in L2 after the head).
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int threads = 256;

/// Merges the block's accumulators into thread 0's, lower ids on the left.
template <typename Sums>
__device__ Sums merge_block(Sums mine) {
    __shared__ Sums sums[threads];
    sums[threadIdx.x] = mine;
    __syncthreads();
    for (int step = 1; step < threads; step *= 2) {
        if (threadIdx.x % (2 * step) == 0) sums[threadIdx.x].merge(sums[threadIdx.x + step]);
        __syncthreads();
    }
    return sums[0];
}

/// Contiguous run of a segment for each thread: keeps "first maximum" a matter of merging left to right.
struct Run {
    int64_t begin, end;
};
__device__ Run run_of_thread(int64_t vocab) {
    constexpr int64_t length = segment / threads;
    const int64_t begin =
        static_cast<int64_t>(blockIdx.x) * segment + static_cast<int64_t>(threadIdx.x) * length;
    const int64_t end = begin + length;
    return {begin, end < vocab ? end : vocab};
}

__global__ void row_sums_kernel(const float* logits, int64_t vocab, shared::SoftmaxSums* parts) {
    const float* const row = logits + static_cast<int64_t>(blockIdx.y) * vocab;
    shared::SoftmaxSums sums;
    const Run run = run_of_thread(vocab);
    for (int64_t i = run.begin; i < run.end; ++i)
        sums.push(row[i], i);
    sums = merge_block(sums);
    if (threadIdx.x == 0) parts[static_cast<int64_t>(blockIdx.y) * gridDim.x + blockIdx.x] = sums;
}

__global__ void kl_sums_kernel(const float* p, const float* q, int64_t vocab, shared::KlSums* parts) {
    const int64_t row = static_cast<int64_t>(blockIdx.y) * vocab;
    shared::KlSums sums;
    const Run run = run_of_thread(vocab);
    for (int64_t i = run.begin; i < run.end; ++i)
        sums.push(p[row + i], q[row + i]);
    sums = merge_block(sums);
    if (threadIdx.x == 0) parts[static_cast<int64_t>(blockIdx.y) * gridDim.x + blockIdx.x] = sums;
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
    const unsigned blocks = static_cast<unsigned>((rows + threads - 1) / threads);
    launch(merge_parts_kernel<Sums>, blocks, threads, 0, stream, parts, rows, segments, out);
}

/// Largest key below `limit` among the block's candidates; every thread gets it.
__device__ uint64_t block_max(uint64_t mine) {
    __shared__ uint64_t keys[threads];
    __syncthreads(); // the previous round's result has been read
    keys[threadIdx.x] = mine;
    __syncthreads();
    for (int step = threads / 2; step > 0; step /= 2) {
        if (static_cast<int>(threadIdx.x) < step && keys[threadIdx.x + step] > keys[threadIdx.x]) {
            keys[threadIdx.x] = keys[threadIdx.x + step];
        }
        __syncthreads();
    }
    return keys[0];
}

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

dim3 grid(int64_t vocab, int64_t rows) {
    return {static_cast<unsigned>(num_segments(vocab)), static_cast<unsigned>(rows), 1};
}

constexpr int64_t most_grid_rows = 65535; // the y extent of a grid

} // namespace

void launch_row_sums(const float* logits, int64_t rows, int64_t vocab, shared::SoftmaxSums* parts,
                     shared::SoftmaxSums* out, void* stream) {
    const auto s = static_cast<cudaStream_t>(stream);
    for (int64_t first = 0; first < rows; first += most_grid_rows) {
        const int64_t count = rows - first < most_grid_rows ? rows - first : most_grid_rows;
        launch(row_sums_kernel, grid(vocab, count), threads, 0, s, logits + first * vocab, vocab,
               parts + first * num_segments(vocab));
    }
    merge_parts(parts, rows, num_segments(vocab), out, s);
}

void launch_kl_sums(const float* p, const float* q, int64_t rows, int64_t vocab, shared::KlSums* parts,
                    shared::KlSums* out, void* stream) {
    const auto s = static_cast<cudaStream_t>(stream);
    for (int64_t first = 0; first < rows; first += most_grid_rows) {
        const int64_t count = rows - first < most_grid_rows ? rows - first : most_grid_rows;
        launch(kl_sums_kernel, grid(vocab, count), threads, 0, s, p + first * vocab, q + first * vocab, vocab,
               parts + first * num_segments(vocab));
    }
    merge_parts(parts, rows, num_segments(vocab), out, s);
}

void launch_top_k(const float* row, int64_t vocab, int64_t k, uint64_t* keys, uint64_t* out, void* stream) {
    const auto s = static_cast<cudaStream_t>(stream);
    launch(top_k_segment_kernel, grid(vocab, 1), threads, 0, s, row, vocab, k, keys);
    launch(top_k_merge_kernel, 1, threads, 0, s, keys, num_segments(vocab) * k, k, out);
}

void launch_mc_sums(const float* row0, const float* rows, int64_t passes, int64_t vocab,
                    const shared::SoftmaxSums* row_sums, double* parts, double* out, void* stream) {
    const auto s = static_cast<cudaStream_t>(stream);
    // 48 KB of shared memory without asking for more: fewer threads when there are many passes.
    constexpr int64_t most_bytes = 48 * 1024;
    int64_t mc_threads = threads;
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
    launch(mc_merge_kernel, static_cast<unsigned>((width + threads - 1) / threads), threads, 0, s, parts,
           blocks, width, out);
}

} // namespace refreshlab::kernels::RL_GPU
