#pragma once

#include "kernels/execution/isa.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

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

/// code * scale + minimum, of channel c the pair [2 c, 2 c + 1]. \param pairs  [n, 2]
void numbers_by_channel(const CodeRows& codes, std::span<const float> pairs);
/// The same with a pair of the row for each `group` of its codes. \param pairs  [rows, groups, 2]
void numbers_by_row(const CodeRows& codes, std::span<const float> pairs, int64_t group);
/// levels[code] * factors[i], of row i. \param levels  [2^bits]; \param factors  [rows]
void numbers_of_levels(const CodeRows& codes, std::span<const float> levels, std::span<const float> factors);
/// Of codes of one bit: factors[i] for 1, -factors[i] for 0.
void numbers_of_signs(const CodeRows& codes, std::span<const float> factors);

/// IEEE halves, one after the other. \param bytes  [2 * to.size()]
void numbers_of_halves(std::span<const uint8_t> bytes, std::span<float> to);
/// Each number as bfloat16, or as an IEEE half, has it: the nearest, ties to even.
void round_to_bfloat16(std::span<float> numbers);
void round_to_half(std::span<float> numbers);

/// The loops that this processor has, the narrowest first. All give the same bits but those of a number that is none.
[[nodiscard]] std::vector<kernels::Isa> code_row_sets();
/// Which of them run from now on; the last one unless a suite asks for another.
void use_code_row_set(kernels::Isa set);
[[nodiscard]] kernels::Isa code_row_set();

// For code_products.cpp
void check_code_rows(const CodeRows& codes); ///< asserts that every code is within the bytes
/// [2 n] pairs apart.
void split_pairs(std::span<const float> pairs, std::span<float> first, std::span<float> second);
/// Of at most 4 bits, again and again: [16].
[[nodiscard]] std::array<float, 16> repeated_levels(std::span<const float> levels);

} // namespace refreshlab
