#pragma once

#include "kernels/blocks/block_types.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace refreshlab {

/// A matrix rounded to the nearest of 2^bits values between minimum and maximum of each group of `group` neighbouring inputs:
/// w = minimum + scale * q, q in 0 .. 2^bits - 1, scale = (maximum - minimum) / (2^bits - 1). Scale and minimum are f16 numbers,
/// as a file would store them. `symmetric`: minimum = 0 and q in -(2^(bits-1) - 1) .. 2^(bits-1) - 1, scale = largest magnitude
/// / (2^(bits-1) - 1). A matrix that was stored so in the first place (Q4_1: 4 bits, groups of 32) comes back bit for bit.
/// \param w  [out, in] fp32, any device; `group` divides in                                             (asserted)
[[nodiscard]] at::Tensor round_to_bits(const at::Tensor& w, int32_t bits, int64_t group, bool symmetric);

/// The block type that holds such numbers exactly: groups are made of whole blocks, and q fits. q4_1 up to 4 bits; symmetric: q4_0
/// up to 4 bits, q8_0 up to 8. Nothing for other numbers, for bits = 0 and for shapes that cannot be packed.
[[nodiscard]] std::optional<kernels::BlockType> block_type_of(int64_t out, int64_t in, int32_t bits,
                                                              int64_t group, bool symmetric);
/// round_to_bits() in blocks: the same numbers, packed. Undefined where block_type_of() has none. \param w  on the CPU
[[nodiscard]] at::Tensor round_to_blocks(const at::Tensor& w, int32_t bits, int64_t group, bool symmetric);

/// w + sigma * rms(w) * n, n standard normal. The draw of an element is a pure function of (seed, stream, element).
/// \param w       [out, in] fp32, any device
/// \param stream  tells the matrices of a model apart
[[nodiscard]] at::Tensor with_noise(const at::Tensor& w, double sigma, uint64_t seed, uint32_t stream);

} // namespace refreshlab
