#pragma once

#include "kernels/cuda/build.h"
#include "kernels/shared/row_accumulators.h"

#include <cstdint>

/// The line between C++ with torch and CUDA without: raw device pointers and a stream. Nothing here waits. Every CUDA
/// error is thrown as DeviceFailure.
namespace refreshlab::kernels::RL_GPU {

inline constexpr int64_t segment = 4096; ///< logits that one block reads
/// A block's share of a row for `n` logits.
[[nodiscard]] constexpr int64_t num_segments(int64_t n) {
    return (n + segment - 1) / segment;
}

/// \param stream  a cudaStream_t
/// \param parts   scratch, [rows * num_segments(vocab)]
/// \param out     [rows]
RL_LAUNCHER void launch_row_sums(const float* logits, int64_t rows, int64_t vocab, shared::SoftmaxSums* parts,
                                 shared::SoftmaxSums* out, void* stream);
RL_LAUNCHER void launch_kl_sums(const float* p, const float* q, int64_t rows, int64_t vocab,
                                shared::KlSums* parts, shared::KlSums* out, void* stream);

/// What a teacher's pass is asked about its rows (kernels/ops/row_reading.h); four launches.
struct RowReadingsInputs {
    const float* p = nullptr; ///< [rows, vocab]
    const float* q = nullptr; ///< [m, vocab]
    int64_t rows = 0, vocab = 0;
    const int64_t* other_of = nullptr;            ///< [rows]: which row of q; -1 = none
    const int64_t* tokens = nullptr;              ///< [rows]; -1 = none
    shared::RowReadingSums* parts = nullptr;      ///< scratch, [rows * num_segments(vocab)]
    shared::RowReadingSums* readings = nullptr;   ///< [rows]
    shared::SoftmaxSums* overlap_parts = nullptr; ///< scratch, as `parts`
    shared::SoftmaxSums* overlaps = nullptr;      ///< [rows]: of min(ln p, ln q); nothing pushed without both
};
RL_LAUNCHER void launch_row_readings(const RowReadingsInputs& in, void* stream);

/// \param keys  scratch, [num_segments(vocab) * k]; \param out  [k], keys of shared/top_k.h, largest first
RL_LAUNCHER void launch_top_k(const float* row, int64_t vocab, int64_t k, uint64_t* keys, uint64_t* out,
                              void* stream);

inline constexpr int64_t mc_columns_per_block = 1024;
[[nodiscard]] constexpr int64_t num_mc_blocks(int64_t vocab) {
    return (vocab + mc_columns_per_block - 1) / mc_columns_per_block;
}
/// \param row_sums  [passes], what launch_row_sums made of `rows`
/// \param parts     scratch, [num_mc_blocks(vocab) * (passes + 1)]
/// \param out       [passes + 1]: squares of each pass, then the disagreement (cpu_kernels.h, McColumns)
RL_LAUNCHER void launch_mc_sums(const float* row0, const float* rows, int64_t passes, int64_t vocab,
                                const shared::SoftmaxSums* row_sums, double* parts, double* out,
                                void* stream);

} // namespace refreshlab::kernels::RL_GPU
