#pragma once

#include <ATen/core/Tensor.h>

namespace refreshlab::kernels {

/// Drift of cache columns (reference/refresh.md, 6.2): for each layer l and column c
///   relative(l, c) = ||a - b||_2 / max(||b||_2, 1e-12) over the kv_heads * head_dim elements,
///   max_abs(l, c)  = max |a - b|.
struct ColumnDistance {
    at::Tensor relative; ///< [layers, n] fp32, CPU
    at::Tensor max_abs;  ///< [layers, n] fp32, CPU
};
/// \param a, b  [layers, kv_heads, n, head_dim], one device (b is the teacher's)
[[nodiscard]] ColumnDistance column_distance(const at::Tensor& a, const at::Tensor& b);

namespace reference {
[[nodiscard]] ColumnDistance column_distance(const at::Tensor& a, const at::Tensor& b);
} // namespace reference

} // namespace refreshlab::kernels
