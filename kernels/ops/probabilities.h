#pragma once

#include <cstdint>
#include <span>

/// What is read off rows of probabilities on the host.
namespace refreshlab::kernels {

/// -sum p log2 p in bits, 0 log 0 = 0; sums in double, in an order that depends on the length alone. \param p  none below 0
[[nodiscard]] double entropy_bits(std::span<const float> p);

/// IEEE 754 binary16, rounded to nearest, ties to even. \param to  as long as `from` (asserted)
void to_half(std::span<const float> from, std::span<uint16_t> to);

/// A row of weights as the sums of its bins of `width` keys (kernels/shared/attention_bins.h), rounded as to_half() does: from[i] is the weight
/// of key first + i, all others are 0. \param to  a number a bin, `from` ends within (asserted)
void to_half_bins(std::span<const float> from, int64_t first, int64_t width, std::span<uint16_t> to);

/// Whole rows of weights, one behind the other, each in bins of `width` keys; 1: as to_half(). \param to  [rows, bins of a row] (asserted)
void rows_to_half(std::span<const float> from, int64_t rows, int64_t width, std::span<uint16_t> to);

} // namespace refreshlab::kernels
