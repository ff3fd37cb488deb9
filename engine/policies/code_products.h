#pragma once

#include "engine/policies/code_rows.h"

#include <cstdint>
#include <span>

namespace refreshlab {

// Products with rows of codes, and sums of them, from registers: rows are never written. Only AVX-512 has them: there the tables that make
// sixteen numbers of sixteen codes are registers as well. Bits are those of code_rows.h's numbers in the kernels of that instruction set
// (kernels/cpu/cpu_kernels.h). `to` and `stride` of CodeRows are not used. All return false where they have not done it: another
// instruction set, more than 4 bits, pieces that are no whole sixteens.

/// y[r, i] = product of x[r] and row i.
struct CodeDots {
    const float* x = nullptr;
    int64_t x_stride = 0;
    int64_t num = 0; ///< r < num
    float* y = nullptr;
    int64_t y_stride = 0;
};
/// acc[r] += sum over i ascending of p[r, i] times row i.
struct CodeSums {
    const float* p = nullptr;
    int64_t p_stride = 0;
    int64_t num = 0;
    float* acc = nullptr;
    int64_t acc_stride = 0;
};
/// Codes of one bit that follow the others in a row, as numbers_of_signs() reads them; their channels come behind the others'.
struct CodeSigns {
    int64_t first = 0, n = 0; ///< first: in bits
    std::span<const float> factors;
};

/// Numbers of numbers_by_channel(), numbers_by_row(), numbers_of_levels().
[[nodiscard]] bool dots_by_channel(const CodeRows& codes, std::span<const float> pairs, const CodeDots& d);
[[nodiscard]] bool dots_by_row(const CodeRows& codes, std::span<const float> pairs, int64_t group,
                               const CodeDots& d);
[[nodiscard]] bool dots_of_levels(const CodeRows& codes, std::span<const float> levels,
                                  std::span<const float> factors, const CodeSigns& signs, const CodeDots& d);
[[nodiscard]] bool sums_by_row(const CodeRows& codes, std::span<const float> pairs, int64_t group,
                               const CodeSums& s);
[[nodiscard]] bool sums_of_levels(const CodeRows& codes, std::span<const float> levels,
                                  std::span<const float> factors, const CodeSums& s);

} // namespace refreshlab
