#pragma once

#include "kernels/ops/row_summary.h"

/// The CUDA versions of kernels/ops/row_statistics.h and row_summary.h, which check the arguments. Tensors are fp32
/// with contiguous rows on one CUDA device. Each function waits once, for the current stream, to have its results.
namespace refreshlab::kernels::cuda {

[[nodiscard]] std::vector<RowSummary> summarize_rows(const at::Tensor& rows, const RowAsk& ask);
[[nodiscard]] McStatistics mc_statistics(const at::Tensor& row0, const at::Tensor& rows);

} // namespace refreshlab::kernels::cuda
