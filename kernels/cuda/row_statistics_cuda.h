#pragma once

#include "kernels/ops/row_summary.h"

/// The CUDA versions behind kernels/ops/row_statistics.h and row_summary.h; arguments are checked there, tensors are fp32 with contiguous rows
/// on one CUDA device. Each waits for its results, that is, once for the current stream.
namespace refreshlab::kernels::cuda {

[[nodiscard]] std::vector<RowSummary> summarize_rows(const at::Tensor& rows, const RowAsk& ask);
[[nodiscard]] McStatistics mc_statistics(const at::Tensor& row0, const at::Tensor& rows);

} // namespace refreshlab::kernels::cuda
