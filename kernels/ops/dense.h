#pragma once

#include "kernels/shared/activation.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

/// Dense layers of a Llama block. Every operation has one schema, a CPU version of our own, a plain-ATen version that
/// runs anywhere (namespace `reference`) and, on a CUDA tensor, uses the ATen version.
///
/// Batch invariance (CPU): row r of a result has the same bits whatever other rows are in the call and however many
/// threads work. Three things rest on it (development/performance.md, fact 6). A teacher equal to the student makes every
/// refresh a bitwise no-op. A probe that is switched on does not change the text. Chunked and whole prefill agree bit
/// for bit.
///
/// dtypes: activations are fp32 everywhere on the CPU; weights fp32, bf16 or fp16, converted to fp32 as they are read;
/// sums in fp32. On CUDA activations have the dtype of the weights, except where a line says fp32.
namespace refreshlab::kernels {

/// y[r, o] = sum_i x[r, i] * weight[o, i] (+ bias[o]).
/// \param x       [rows, in], fp32 on the CPU
/// \param weight  [out, in], row-major contiguous; on the CPU also a matrix in blocks (kernels/blocks/blocks.h)
/// \param bias    [out] or undefined
/// \return [rows, out], dtype of x
[[nodiscard]] at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

/// Rows of an embedding in blocks, [ids, in]: fp32 on the CPU, elsewhere bf16. \param ids  rows of the matrix (asserted on the CPU)
[[nodiscard]] at::Tensor embedded(const at::Tensor& packed, std::span<const int32_t> ids);

/// y[r, c] = x[r, c] / sqrt(mean_c x[r, c]^2 + eps) * weight[c]; the mean divides by `width` (the true width of a
/// zero-padded residual; 0 = number of columns). Source: Zhang and Sennrich 2019; padding: reference/refresh.md, 4.
[[nodiscard]] at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps,
                                  int64_t width = 0);

/// y = f(gate) * up, element by element.
[[nodiscard]] at::Tensor gated(Activation activation, const at::Tensor& gate, const at::Tensor& up);
/// The same with silu.
[[nodiscard]] inline at::Tensor silu_mul(const at::Tensor& gate, const at::Tensor& up) {
    return gated(Activation::silu, gate, up);
}

/// x = cap * tanh(x / cap) in place, cap > 0. Source: Gemma Team 2024 (Gemma 2).
void soft_cap_(at::Tensor& x, double cap);

/// Rotates x [rows, heads, head_dim] in place by the angles of its rows: channel pairs (i, i + r/2) of the first r channels, the layout
/// of Hugging Face's Llama; others stay. cos, sin: [rows, r/2], fp32, r <= head_dim. Source: Su et al. 2021 (RoFormer).
void rope_(at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

namespace reference {
[[nodiscard]] at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});
[[nodiscard]] at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps,
                                  int64_t width = 0);
[[nodiscard]] at::Tensor gated(Activation activation, const at::Tensor& gate, const at::Tensor& up);
[[nodiscard]] inline at::Tensor silu_mul(const at::Tensor& gate, const at::Tensor& up) {
    return reference::gated(Activation::silu, gate, up);
}
void soft_cap_(at::Tensor& x, double cap);
void rope_(at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);
} // namespace reference

} // namespace refreshlab::kernels
