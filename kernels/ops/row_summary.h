#pragma once

#include "kernels/ops/row_statistics.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace refreshlab::kernels {

/// What is asked of rows of logits beyond their statistics.
struct RowAsk {
    int64_t top_k = 0; ///< candidates of every row, clamped to vocab; 0 = none
    /// Per row, a token whose log-probability is wanted; -1 = none. Empty = none at all.
    std::span<const int32_t> tokens{};
    /// Rows of another model, [m, vocab] fp32, any device: a row r with kl_rows[r] >= 0 gives KL(row r || kl_against[kl_rows[r]]).
    at::Tensor kl_against{};
    std::span<const int64_t>
        kl_rows{}; ///< per row, an index into kl_against; -1 = none. Empty = none at all.

    /// The same for rows [first, first + n) alone.
    [[nodiscard]] RowAsk part(int64_t first, int64_t n) const {
        RowAsk ask = *this;
        const auto cut = [&](auto& list) {
            if (!list.empty()) list = list.subspan(static_cast<size_t>(first), static_cast<size_t>(n));
        };
        cut(ask.tokens);
        cut(ask.kl_rows);
        return ask;
    }
};

/// The answers for one row. A field is NaN where nothing was asked, or where a logit is NaN or infinite.
struct RowSummary {
    RowStatistics statistics;
    TopK top;
    double logprob = std::numeric_limits<double>::quiet_NaN(); ///< z[token] - ln Z
    double kl_nats = std::numeric_limits<double>::quiet_NaN();
};

/// All answers in one pass over the rows: each segment of a row is read from memory once. Every number has the bits that
/// row_statistics(), top_k() and kl_divergence() give.
/// \param rows  [rows, vocab], float dtype, any device
[[nodiscard]] std::vector<RowSummary> summarize_rows(const at::Tensor& rows, const RowAsk& ask = {});

namespace reference { // float64 ATen, any device
[[nodiscard]] std::vector<RowSummary> summarize_rows(const at::Tensor& rows, const RowAsk& ask = {});
} // namespace reference

} // namespace refreshlab::kernels
