#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

/// The CPU versions of kernels/ops/dense.h, which checks the arguments.
namespace refreshlab::kernels::cpu {

[[nodiscard]] at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);
[[nodiscard]] at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, int64_t width);
[[nodiscard]] at::Tensor silu_mul(const at::Tensor& gate, const at::Tensor& up);
void rope_(at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

} // namespace refreshlab::kernels::cpu
