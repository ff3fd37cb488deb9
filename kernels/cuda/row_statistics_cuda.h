#pragma once

#include "kernels/ops/row_reading.h"
#include "kernels/ops/row_summary.h"

/// The CUDA versions of kernels/ops/row_statistics.h, row_summary.h and row_reading.h, which check the arguments. Tensors are fp32
/// with contiguous rows on one CUDA device. Each function waits once, for the current stream, to have its results.
namespace refreshlab::kernels::cuda {

[[nodiscard]] std::vector<RowSummary> summarize_rows(const at::Tensor& rows, const RowAsk& ask);
[[nodiscard]] std::vector<RowReading> read_rows(const at::Tensor& rows, std::span<const int32_t> tokens,
                                                const at::Tensor& others, std::span<const int64_t> other_of);
[[nodiscard]] McStatistics mc_statistics(const at::Tensor& row0, const at::Tensor& rows);

} // namespace refreshlab::kernels::cuda
