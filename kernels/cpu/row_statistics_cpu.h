#pragma once

#include "kernels/ops/row_summary.h"
#include "kernels/shared/row_accumulators.h"

#include <cstdint>
#include <vector>

/// The CPU versions of kernels/ops/row_statistics.h and row_summary.h, which check the arguments. Tensors are fp32 with
/// contiguous rows.
namespace refreshlab::kernels::cpu {

[[nodiscard]] std::vector<RowSummary> summarize_rows(const at::Tensor& rows, const RowAsk& ask);
[[nodiscard]] TopK top_k(const at::Tensor& row, int64_t k);
[[nodiscard]] McStatistics mc_statistics(const at::Tensor& row0, const at::Tensor& rows);

/// A row of logits that is summed segment by segment, each once, on any threads, in any order: the same bits. Rows are summed in
/// segments everywhere, so these are the bits of summarize_rows() too.
class RowSegments {
public:
    static constexpr int64_t length = 1024; ///< logits of a segment; the last one may be shorter

    /// \param row         [vocab], outlives this; the logits of a segment are there when it is summed
    /// \param top_k       candidates, at most vocab
    /// \param kl_against  another model's row, [vocab]; null: no KL
    RowSegments(const float* row, int64_t vocab, int64_t top_k, const float* kl_against = nullptr);
    [[nodiscard]] int64_t count() const { return (m_vocab + length - 1) / length; }
    void sum(int64_t segment);
    /// After all of them. \param token  its log-probability is wanted; -1 = none
    [[nodiscard]] RowSummary finish(int64_t token = -1) const;

private:
    struct Part {
        shared::SoftmaxSums sums;
        shared::KlSums kl;
    };

    const float* m_row;
    const float* m_kl_against;
    int64_t m_vocab, m_top_k;
    int64_t m_inserted; ///< candidates that segments keep; 0: a long list is sorted at the end
    std::vector<Part> m_parts;
    std::vector<uint64_t> m_keys; ///< [segments, m_inserted]
};

} // namespace refreshlab::kernels::cpu
