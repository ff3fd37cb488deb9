#pragma once

#include <cstdint>
#include <span>

/// What is read off rows of probabilities on the host.
namespace refreshlab::kernels {

/// -sum p log2 p in bits, 0 log 0 = 0; sums in double, in an order that depends on the length alone. \param p  none below 0
[[nodiscard]] double entropy_bits(std::span<const float> p);

/// IEEE 754 binary16, rounded to nearest, ties to even. \param to  as long as `from` (asserted)
void to_half(std::span<const float> from, std::span<uint16_t> to);

} // namespace refreshlab::kernels
