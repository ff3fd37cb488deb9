#include "kernels/ops/row_statistics.h"

#include "kernels/cpu/row_statistics_cpu.h"
#include "kernels/execution/cuda_devices.h"
#include "kernels/execution/isa.h"
#include "kernels/ops/row_results.h"
#include "kernels/ops/row_summary.h"
#include "kernels/shared/check.h"
#include "kernels/shared/top_k.h"
#if REFRESHLAB_CUDA
#include "kernels/cuda/row_statistics_cuda.h"
#endif

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace refreshlab::kernels {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

enum class Code { reference, cpu, cuda };

Code code_for(const at::Tensor& t) {
    if (t.is_cpu()) return isa() == Isa::reference ? Code::reference : Code::cpu;
#if REFRESHLAB_CUDA
    if (t.is_cuda() && runs_own_kernels(t.device().index())) return Code::cuda;
#endif
    return Code::reference;
}

at::Tensor fp32(const at::Tensor& t) {
    return t.to(at::kFloat).contiguous();
}

} // namespace

RowStatistics finish_row(const shared::SoftmaxSums& sums) {
    RowStatistics row;
    row.finite = sums.finite();
    if (!row.finite) {
        row.log_z = row.entropy_bits = row.top1_prob = row.varentropy_bits2 = row.top1_logit = nan;
        return row;
    }
    row.log_z = sums.log_z();
    row.entropy_bits = std::max(sums.entropy_nats() / shared::ln2, 0.0);
    row.top1_prob = sums.top1_prob();
    row.varentropy_bits2 = sums.varentropy_nats2() / (shared::ln2 * shared::ln2);
    row.top1_id = sums.argmax;
    row.top1_logit = sums.max;
    return row;
}

double finish_kl(const shared::KlSums& sums) {
    return sums.finite() ? sums.kl_nats() : nan;
}

McStatistics finish_mc(std::span<const RowStatistics> rows, bool row0_finite, std::span<const double> squares,
                       double disagreement, int64_t vocab) {
    const int64_t passes = static_cast<int64_t>(rows.size());
    const bool finite =
        row0_finite && std::ranges::all_of(rows, [](const RowStatistics& row) { return row.finite; });
    if (!finite) return {nan, nan, nan, nan, nan};
    const double n = static_cast<double>(passes);
    McStatistics mc;
    mc.variance = shared::mc_variance(squares.data(), passes, vocab);
    mc.variance_sd = shared::mc_variance_sd(squares.data(), passes, vocab);
    mc.mutual_information_bits = std::max(disagreement / n / shared::ln2, 0.0);
    // Around the first pass, so that equal passes give a spread of exactly 0.
    const double origin = rows[0].entropy_bits;
    double sum = 0;
    for (const RowStatistics& row : rows)
        sum += row.entropy_bits - origin;
    const double mean = sum / n;
    double spread = 0;
    for (const RowStatistics& row : rows) {
        const double d = (row.entropy_bits - origin) - mean;
        spread += d * d;
    }
    mc.mean_entropy_bits = origin + mean;
    mc.mean_entropy_sd_bits = std::sqrt(spread / (n - 1));
    return mc;
}

TopK finish_top_k(std::span<const uint64_t> keys) {
    TopK top;
    top.ids.reserve(keys.size());
    top.logits.reserve(keys.size());
    for (const uint64_t key : keys) {
        top.ids.push_back(static_cast<int32_t>(shared::top_k_id(key)));
        top.logits.push_back(shared::top_k_logit(key));
    }
    return top;
}

std::vector<RowSummary> summarize_rows(const at::Tensor& rows, const RowAsk& ask) {
    RL_ASSERT(rows.dim() == 2 && rows.size(1) > 0 && ask.top_k >= 0);
    const int64_t n = rows.size(0);
    RL_ASSERT(ask.tokens.empty() || static_cast<int64_t>(ask.tokens.size()) == n);
    RL_ASSERT(std::ranges::all_of(ask.tokens, [&](int32_t id) { return id < rows.size(1); }));
    RL_ASSERT(ask.kl_rows.empty() || static_cast<int64_t>(ask.kl_rows.size()) == n);
    if (std::ranges::any_of(ask.kl_rows, [](int64_t row) { return row >= 0; })) {
        RL_ASSERT(ask.kl_against.dim() == 2 && ask.kl_against.size(1) == rows.size(1));
        RL_ASSERT(
            std::ranges::all_of(ask.kl_rows, [&](int64_t row) { return row < ask.kl_against.size(0); }));
    }
    RowAsk clamped = ask;
    clamped.top_k = std::min(ask.top_k, rows.size(1));
    switch (code_for(rows)) {
    case Code::cpu:
        return cpu::summarize_rows(fp32(rows), clamped);
#if REFRESHLAB_CUDA
    case Code::cuda:
        return cuda::summarize_rows(fp32(rows), clamped);
#endif
    default:
        return reference::summarize_rows(rows, clamped);
    }
}

std::vector<RowStatistics> row_statistics(const at::Tensor& rows) {
    std::vector<RowStatistics> result;
    for (const RowSummary& row : summarize_rows(rows))
        result.push_back(row.statistics);
    return result;
}

TopK top_k(const at::Tensor& row, int64_t k) {
    RL_ASSERT(row.dim() == 1 && row.size(0) > 0 && k >= 0);
    if (code_for(row) == Code::cpu) return cpu::top_k(fp32(row), std::min(k, row.size(0)));
    RowAsk ask;
    ask.top_k = k;
    return summarize_rows(row.unsqueeze(0), ask)[0].top;
}

std::vector<double> kl_divergence(const at::Tensor& p_logits, const at::Tensor& q_logits) {
    RL_ASSERT(p_logits.dim() == 2 && p_logits.sizes() == q_logits.sizes());
    std::vector<int64_t> own(static_cast<size_t>(p_logits.size(0)));
    std::iota(own.begin(), own.end(), 0);
    RowAsk ask;
    ask.kl_against = q_logits;
    ask.kl_rows = own;
    std::vector<double> result;
    for (const RowSummary& row : summarize_rows(p_logits, ask))
        result.push_back(row.kl_nats);
    return result;
}

McStatistics mc_statistics(const at::Tensor& row0, const at::Tensor& rows) {
    RL_ASSERT(row0.dim() == 1 && rows.dim() == 2 && rows.size(1) == row0.size(0) && row0.size(0) > 0);
    RL_ASSERT(rows.size(0) >= 2);
    RL_ASSERT(row0.device() == rows.device());
    switch (code_for(rows)) {
    case Code::cpu:
        return cpu::mc_statistics(fp32(row0), fp32(rows));
#if REFRESHLAB_CUDA
    case Code::cuda:
        return cuda::mc_statistics(fp32(row0), fp32(rows));
#endif
    default:
        return reference::mc_statistics(row0, rows);
    }
}

} // namespace refreshlab::kernels
