#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

/// What PlainForward asks of matrices in blocks on a GPU, by the kernels of passes of many rows.
namespace refreshlab::kernels::cuda {

/// linear() of kernels/ops/dense.h. \param x  bf16, and so are the bias and the result; the sums are fp32
[[nodiscard]] at::Tensor block_linear(const at::Tensor& x, const at::Tensor& packed, const at::Tensor& bias);
/// Rows of an embedding, [ids, in] bf16.
[[nodiscard]] at::Tensor block_rows_of(const at::Tensor& packed, std::span<const int32_t> ids);

} // namespace refreshlab::kernels::cuda
