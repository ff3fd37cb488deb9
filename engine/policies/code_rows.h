#pragma once

#include <cstdint>
#include <span>

namespace refreshlab {

/// Rows of codes (bit_codes.h) that are read as numbers: of row rows[i] the n codes from `first` on.
struct CodeRows {
    std::span<const uint8_t> bytes;
    int64_t bits = 0;     ///< of a code, 1 to 8
    int64_t row_bits = 0; ///< from the first code of a row to that of the next one
    std::span<const int64_t> rows;
    int64_t first = 0, n = 0;
    float* to = nullptr; ///< number c of row i goes to to[i * stride + c]
    int64_t stride = 0;
};

// A number is rounded as it is written here, so every instruction set gives the same bits.

/// code * scales[c] + minima[c], of channel c. \param scales, minima  [n]
void numbers_by_channel(const CodeRows& codes, std::span<const float> scales, std::span<const float> minima);
/// code * scale + minimum, of row i pairs[i * stride] and the number behind it.
void numbers_by_row(const CodeRows& codes, std::span<const float> pairs, int64_t stride);
/// levels[code] * factors[i], of row i. \param levels  [2^bits]; \param factors  [rows]
void numbers_of_levels(const CodeRows& codes, std::span<const float> levels, std::span<const float> factors);

/// IEEE halves, one after the other. \param bytes  [2 * to.size()]
void numbers_of_halves(std::span<const uint8_t> bytes, std::span<float> to);
/// Each number as bfloat16, or as an IEEE half, has it: the nearest, ties to even.
void round_to_bfloat16(std::span<float> numbers);
void round_to_half(std::span<float> numbers);

} // namespace refreshlab
