#pragma once

#include "kernels/ops/row_statistics.h"
#include "kernels/shared/row_accumulators.h"

#include <cstdint>
#include <span>
#include <vector>

/// From accumulators to results; the same for CPU and CUDA.
namespace refreshlab::kernels {

[[nodiscard]] RowStatistics finish_row(const shared::SoftmaxSums& sums);
/// NaN for rows with a NaN or an infinity.
[[nodiscard]] double finish_kl(const shared::KlSums& sums);
/// \param rows     of the N passes
/// \param squares  [N], \param disagreement  see cpu_kernels.h, McColumns
[[nodiscard]] McStatistics finish_mc(std::span<const RowStatistics> rows, bool row0_finite,
                                     std::span<const double> squares, double disagreement, int64_t vocab);
/// Keys, largest first, of shared/top_k.h.
[[nodiscard]] TopK finish_top_k(std::span<const uint64_t> keys);

} // namespace refreshlab::kernels
