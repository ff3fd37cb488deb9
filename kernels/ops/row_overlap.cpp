#include "kernels/ops/row_overlap.h"

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/execution/cuda_devices.h"
#include "kernels/execution/isa.h"
#include "kernels/execution/thread_pool.h"
#include "kernels/shared/check.h"
#if REFRESHLAB_CUDA
#include "kernels/cuda/row_statistics_cuda.h"
#endif

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::kernels {

namespace {

constexpr int64_t segment =
    4096; // as in row_statistics: fixed, so that the number of threads does not matter

bool computes_here(const at::Tensor& rows) {
    return rows.is_cpu() && isa() != Isa::reference;
}

/// The other rows that are asked for, in the order of `rows`, with their statistics; rows without one are left out.
struct Others {
    std::vector<int64_t> rows; ///< of the pairs
    at::Tensor logits;         ///< [pairs, vocab]
    std::vector<RowStatistics> statistics;
};

Others others_of(const at::Tensor& others, std::span<const int64_t> other_of) {
    Others found;
    std::vector<int64_t> wanted;
    for (size_t r = 0; r < other_of.size(); ++r) {
        if (other_of[r] < 0) continue;
        found.rows.push_back(static_cast<int64_t>(r));
        wanted.push_back(other_of[r]);
    }
    if (wanted.empty()) return found;
    found.logits = others.index_select(0, at::tensor(wanted, at::kLong).to(others.device())).contiguous();
    found.statistics = row_statistics(found.logits);
    return found;
}

void check(const at::Tensor& rows, std::span<const RowStatistics> statistics,
           std::span<const int64_t> other_of) {
    RL_ASSERT(rows.dim() == 2 && static_cast<int64_t>(statistics.size()) == rows.size(0));
    RL_ASSERT(static_cast<int64_t>(other_of.size()) == rows.size(0));
}

/// ln of sum e^min over one pair. The smaller of two normalised log-probabilities is again a row of logits, and the log of its
/// sum is what the softmax kernel gives.
double log_overlap(const float* p, double p_log_z, const float* q, double q_log_z, int64_t vocab) {
    shared::SoftmaxSums sums;
    float lower[segment];
    for (int64_t first = 0; first < vocab; first += segment) {
        const int64_t n = std::min(segment, vocab - first);
        for (int64_t i = 0; i < n; ++i) {
            lower[i] = static_cast<float>(std::min(static_cast<double>(p[first + i]) - p_log_z,
                                                   static_cast<double>(q[first + i]) - q_log_z));
        }
        sums.merge(cpu::kernels().softmax_sums(lower, n, first));
    }
    return sums.log_z();
}

#if REFRESHLAB_CUDA
/// Parts of a reading, whose kernels make them on the device.
std::vector<RowOverlap> overlap_on_device(const at::Tensor& rows, const at::Tensor& others,
                                          std::span<const int64_t> other_of) {
    const std::vector<int32_t> no_tokens(other_of.size(), -1);
    std::vector<RowOverlap> result;
    for (const RowReading& row : cuda::read_rows(rows, no_tokens, others, other_of))
        result.push_back(row.overlap);
    return result;
}
std::vector<int32_t> ranks_on_device(const at::Tensor& rows, std::span<const int32_t> tokens) {
    const std::vector<int64_t> no_others(tokens.size(), -1);
    std::vector<int32_t> result;
    for (const RowReading& row : cuda::read_rows(rows, tokens, {}, no_others))
        result.push_back(row.rank);
    return result;
}
#endif

} // namespace

std::vector<RowOverlap> row_overlap(const at::Tensor& rows, std::span<const RowStatistics> statistics,
                                    const at::Tensor& others, std::span<const int64_t> other_of) {
#if REFRESHLAB_CUDA
    if (rows.is_cuda() && runs_own_kernels(rows.device().index()))
        return overlap_on_device(rows, others, other_of);
#endif
    if (!computes_here(rows)) return reference::row_overlap(rows, statistics, others, other_of);
    check(rows, statistics, other_of);
    std::vector<RowOverlap> result(statistics.size());
    const Others found = others_of(others, other_of);
    if (found.rows.empty()) return result;
    const at::Tensor p = rows.to(at::kFloat).contiguous(),
                     q = found.logits.to(at::kCPU, at::kFloat).contiguous();
    const int64_t vocab = p.size(1);
    parallel_for(static_cast<int64_t>(found.rows.size()), 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t r = found.rows[static_cast<size_t>(i)];
            const RowStatistics &of_p = statistics[static_cast<size_t>(r)],
                                &of_q = found.statistics[static_cast<size_t>(i)];
            if (!of_p.finite || !of_q.finite) continue;
            const double ln = log_overlap(p.const_data_ptr<float>() + r * vocab, of_p.log_z,
                                          q.const_data_ptr<float>() + i * vocab, of_q.log_z, vocab);
            result[static_cast<size_t>(r)] = {std::min(std::exp(ln), 1.0), of_p.top1_id == of_q.top1_id};
        }
    });
    return result;
}

std::vector<int32_t> token_ranks(const at::Tensor& rows, std::span<const int32_t> tokens) {
#if REFRESHLAB_CUDA
    if (rows.is_cuda() && runs_own_kernels(rows.device().index())) return ranks_on_device(rows, tokens);
#endif
    if (!computes_here(rows)) return reference::token_ranks(rows, tokens);
    RL_ASSERT(rows.dim() == 2 && static_cast<int64_t>(tokens.size()) == rows.size(0));
    const at::Tensor all = rows.to(at::kFloat).contiguous();
    const int64_t vocab = all.size(1);
    std::vector<int32_t> ranks(tokens.size(), 0);
    for (size_t r = 0; r < tokens.size(); ++r) {
        if (tokens[r] < 0) continue;
        const float* const row = all.const_data_ptr<float>() + static_cast<int64_t>(r) * vocab;
        const float own = row[tokens[r]];
        if (std::isnan(own)) continue;
        int32_t above = 0;
        for (int64_t i = 0; i < vocab; ++i)
            above +=
                static_cast<int32_t>(row[i] > own) + static_cast<int32_t>(row[i] == own && i < tokens[r]);
        ranks[r] = above + 1;
    }
    return ranks;
}

namespace reference {

std::vector<RowOverlap> row_overlap(const at::Tensor& rows, std::span<const RowStatistics> statistics,
                                    const at::Tensor& others, std::span<const int64_t> other_of) {
    check(rows, statistics, other_of);
    std::vector<RowOverlap> result(statistics.size());
    const Others found = others_of(others, other_of);
    for (size_t i = 0; i < found.rows.size(); ++i) {
        const int64_t r = found.rows[i];
        const RowStatistics &of_p = statistics[static_cast<size_t>(r)], &of_q = found.statistics[i];
        if (!of_p.finite || !of_q.finite) continue;
        const at::Tensor p = rows[r].to(at::kDouble).softmax(0);
        const at::Tensor q = found.logits[static_cast<int64_t>(i)].to(p.device(), at::kDouble).softmax(0);
        result[static_cast<size_t>(r)] = {std::min(at::minimum(p, q).sum().item<double>(), 1.0),
                                          of_p.top1_id == of_q.top1_id};
    }
    return result;
}

std::vector<int32_t> token_ranks(const at::Tensor& rows, std::span<const int32_t> tokens) {
    RL_ASSERT(rows.dim() == 2 && static_cast<int64_t>(tokens.size()) == rows.size(0));
    std::vector<int32_t> ranks(tokens.size(), 0);
    for (size_t r = 0; r < tokens.size(); ++r) {
        if (tokens[r] < 0) continue;
        const at::Tensor row = rows[static_cast<int64_t>(r)];
        const at::Tensor own = row[tokens[r]];
        if (own.isnan().item<bool>()) continue;
        const int64_t above =
            (row > own).sum().item<int64_t>() + (row.narrow(0, 0, tokens[r]) == own).sum().item<int64_t>();
        ranks[r] = static_cast<int32_t>(above + 1);
    }
    return ranks;
}

} // namespace reference

} // namespace refreshlab::kernels
