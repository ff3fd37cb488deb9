#include "kernels/ops/row_reading.h"

#include "kernels/execution/cuda_devices.h"
#include "kernels/ops/row_results.h"
#include "kernels/ops/row_summary.h"
#include "kernels/shared/check.h"
#if REFRESHLAB_CUDA
#include "kernels/cuda/row_statistics_cuda.h"
#endif

#include <algorithm>
#include <cmath>

namespace refreshlab::kernels {

RowReading finish_reading(const shared::RowReadingSums& sums, const shared::SoftmaxSums& overlap,
                          bool has_token) {
    RowReading row;
    row.statistics = finish_row(sums.p);
    if (has_token) {
        row.logprob = sums.logit - row.statistics.log_z;
        row.rank = std::isnan(sums.logit) ? 0 : static_cast<int32_t>(sums.above + 1);
    }
    row.kl_nats = finish_kl(sums.kl);
    if (sums.p.finite() && sums.q.finite())
        row.overlap = {std::min(std::exp(overlap.log_z()), 1.0), sums.p.argmax == sums.q.argmax};
    return row;
}

std::vector<RowReading> read_rows(const at::Tensor& rows, std::span<const int32_t> tokens,
                                  const at::Tensor& others, std::span<const int64_t> other_of) {
    RL_ASSERT(rows.dim() == 2 && std::ssize(tokens) == rows.size(0) && std::ssize(other_of) == rows.size(0));
    RL_ASSERT(std::ranges::all_of(tokens, [&](int32_t id) { return id < rows.size(1); }));
#if REFRESHLAB_CUDA
    if (rows.is_cuda() && runs_own_kernels(rows.device().index()))
        return cuda::read_rows(rows, tokens, others, other_of);
#endif
    RowAsk ask;
    ask.tokens = tokens;
    ask.kl_against = others;
    ask.kl_rows = other_of;
    std::vector<RowStatistics> statistics;
    std::vector<RowReading> result;
    for (const RowSummary& row : summarize_rows(rows, ask)) {
        statistics.push_back(row.statistics);
        result.push_back({row.statistics, row.logprob, 0, row.kl_nats, {}});
    }
    const std::vector<RowOverlap> overlap = row_overlap(rows, statistics, others, other_of);
    const std::vector<int32_t> ranks = token_ranks(rows, tokens);
    for (size_t r = 0; r < result.size(); ++r) {
        result[r].overlap = overlap[r];
        result[r].rank = ranks[r];
    }
    return result;
}

} // namespace refreshlab::kernels
