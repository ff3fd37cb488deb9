#pragma once

#include "kernels/blocks/block_types.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

/// Matrices in blocks of few bits, as GGUF files hold them, multiplied as they are. The weights are the file's numbers
/// exactly, activations are fp32 as everywhere on the CPU, and so are the sums: a product differs from that with the
/// unpacked fp32 matrix by the rounding of sums alone. Batch invariance as in kernels/ops/dense.h.
///
/// Layout  a uint8 tensor [out / 16, in / 32, tile bytes]: a tile holds the blocks of 16 rows side by side. First 16 fp16
///         scales, then (q4_1) 16 fp16 minima, then the numbers. q8_0: byte [k][row]. q4_0 and q4_1: uint32 [k / 8][row] with number
///         k in bits 4 (k mod 8). The size of a tile tells the type. One stream of memory, 16 rows in the lanes of a register.
/// Devices a packed matrix on another device has the same shape, and tiles in the order that kernels read there (device_blocks.h).
namespace refreshlab::kernels {

/// \param row  the stored blocks of a row, in / 32 of them without gaps
/// \return can_pack_blocks(out, in) (asserted) packed, on the CPU
[[nodiscard]] at::Tensor pack_blocks(BlockType type, int64_t out, int64_t in,
                                     const std::function<const std::byte*(int64_t row)>& row);
[[nodiscard]] bool is_blocks(const at::Tensor& weight);
/// [out, in] of a packed matrix, on any device.
struct BlockShape {
    BlockType type = BlockType::q8_0;
    int64_t out = 0, in = 0;
};
[[nodiscard]] BlockShape block_shape(const at::Tensor& packed);
/// No scale or minimum is NaN or infinite.
[[nodiscard]] bool blocks_are_finite(const at::Tensor& packed);
/// The numbers of some rows, [ids, in] fp32 on the CPU: d * q (+ m), each operation rounded. A matrix of another device is brought here
/// whole. \param ids  rows of the matrix (asserted)
[[nodiscard]] at::Tensor block_values(const at::Tensor& packed, std::span<const int64_t> ids);
/// All of them, [out, in].
[[nodiscard]] at::Tensor block_values(const at::Tensor& packed);

/// linear() of kernels/ops/dense.h with such a weight; the kernel set of the calling thread's context, not reference.
[[nodiscard]] at::Tensor block_linear(const at::Tensor& x, const at::Tensor& packed, const at::Tensor& bias);

} // namespace refreshlab::kernels
