#pragma once

#include "kernels/ops/row_statistics.h"

/// The CUDA versions behind kernels/ops/row_statistics.h; arguments are checked there, tensors are fp32 with contiguous rows
/// on one CUDA device. Each waits for its results, that is, once for the current stream.
namespace refreshlab::kernels::cuda {

[[nodiscard]] std::vector<RowStatistics> row_statistics(const at::Tensor& rows);
[[nodiscard]] TopK top_k(const at::Tensor& row, int64_t k);
[[nodiscard]] std::vector<double> kl_divergence(const at::Tensor& p_logits, const at::Tensor& q_logits);
[[nodiscard]] McStatistics mc_statistics(const at::Tensor& row0, const at::Tensor& rows);

} // namespace refreshlab::kernels::cuda
