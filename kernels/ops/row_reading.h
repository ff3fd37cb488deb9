#pragma once

#include "kernels/ops/row_overlap.h"
#include "kernels/ops/row_statistics.h"
#include "kernels/shared/row_accumulators.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace refreshlab::kernels {

/// All that a teacher's pass is asked about one of its rows: its statistics, what it says of the token that came next, and how it
/// compares with the student's row of the same place.
struct RowReading {
    RowStatistics statistics;
    double logprob = std::numeric_limits<double>::quiet_NaN(); ///< z[token] - ln Z; NaN without a token
    int32_t rank = 0;                                          ///< as token_ranks()
    double kl_nats = std::numeric_limits<double>::quiet_NaN(); ///< KL(row || other); NaN without one
    RowOverlap overlap;
};

/// From accumulators; the same wherever they were made. \param overlap  of min(ln p, ln q)
[[nodiscard]] RowReading finish_reading(const shared::RowReadingSums& sums,
                                        const shared::SoftmaxSums& overlap, bool has_token);

/// Every number is what summarize_rows(), token_ranks() and row_overlap() give; on a GPU they are made there together, and come to the
/// host in one copy.
/// \param rows      [rows, vocab] fp32, any device
/// \param tokens    per row; -1 = none
/// \param others    [m, vocab] fp32, any device; undefined where no row has one
/// \param other_of  per row, an index into others; -1 = none
[[nodiscard]] std::vector<RowReading> read_rows(const at::Tensor& rows, std::span<const int32_t> tokens,
                                                const at::Tensor& others, std::span<const int64_t> other_of);

} // namespace refreshlab::kernels
