#pragma once

#include "kernels/shared/activation.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

/// The CPU versions of kernels/ops/dense.h, which checks the arguments.
namespace refreshlab::kernels::cpu {

[[nodiscard]] at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);
[[nodiscard]] at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, int64_t width);
[[nodiscard]] at::Tensor gated(Activation activation, const at::Tensor& gate, const at::Tensor& up);
void soft_cap_(at::Tensor& x, double cap);
void rope_(at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

} // namespace refreshlab::kernels::cpu
