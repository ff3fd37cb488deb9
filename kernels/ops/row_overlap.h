#pragma once

#include "kernels/ops/row_statistics.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace refreshlab::kernels {

/// How two models' rows of one place compare, beyond their KL (kernels/ops/row_summary.h). NaN and false where a row has a logit
/// that is NaN or infinite, and where there is no other row.
struct RowOverlap {
    /// sum_i min(p_i, q_i) = 1 - total variation: the chance that a token drawn from q is taken by speculative sampling against
    /// p. In [0, 1]. Source: Leviathan et al. 2023, theorem 3.5.
    double acceptance = std::numeric_limits<double>::quiet_NaN();
    bool same_top1 = false; ///< one arg max; ties go to the lower id
};

/// \param rows        [rows, vocab] fp32, any device
/// \param statistics  of these rows, as row_statistics() gives them
/// \param others      [m, vocab] fp32, any device
/// \param other_of    per row, an index into others; -1 = none
/// On the CPU a second pass over the rows, one exponential an element.
[[nodiscard]] std::vector<RowOverlap> row_overlap(const at::Tensor& rows,
                                                  std::span<const RowStatistics> statistics,
                                                  const at::Tensor& others,
                                                  std::span<const int64_t> other_of);

/// Per row, the place of a token when the row is sorted, from 1: ties go to the lower id. 0 where the token is -1 or its logit
/// is no number. \param rows  [rows, vocab] fp32, any device
[[nodiscard]] std::vector<int32_t> token_ranks(const at::Tensor& rows, std::span<const int32_t> tokens);

namespace reference { // float64 ATen, any device
[[nodiscard]] std::vector<RowOverlap> row_overlap(const at::Tensor& rows,
                                                  std::span<const RowStatistics> statistics,
                                                  const at::Tensor& others,
                                                  std::span<const int64_t> other_of);
[[nodiscard]] std::vector<int32_t> token_ranks(const at::Tensor& rows, std::span<const int32_t> tokens);
} // namespace reference

} // namespace refreshlab::kernels
