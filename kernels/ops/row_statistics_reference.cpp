#include "kernels/ops/row_summary.h"
#include "kernels/shared/row_accumulators.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

/// float64 ATen, from the definitions. Slow and plain on purpose; the jackknife really leaves each pass out.
namespace refreshlab::kernels::reference {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> to_vector(const at::Tensor& t) {
    const at::Tensor host = t.to(at::kCPU, at::kDouble).contiguous();
    return {host.const_data_ptr<double>(), host.const_data_ptr<double>() + host.numel()};
}

/// -sum p ln p with p ln p = 0 at p = 0, over the last dimension, in bits.
at::Tensor entropy_bits(const at::Tensor& log_p) {
    const at::Tensor p = log_p.exp();
    return -at::where(p > 0, p * log_p, at::zeros_like(p)).sum(-1) / shared::ln2;
}

double variance(const at::Tensor& rows) {
    return rows.var(0, /*unbiased=*/true).mean().item<double>();
}

} // namespace

std::vector<RowStatistics> row_statistics(const at::Tensor& rows) {
    const at::Tensor z = rows.to(at::kDouble);
    const std::vector<double> finite = to_vector(at::isfinite(z).all(-1));
    const at::Tensor log_z = at::logsumexp(z, -1);
    const at::Tensor log_p = z - log_z.unsqueeze(-1);
    const std::vector<double> log_zs = to_vector(log_z);
    const std::vector<double> entropies = to_vector(entropy_bits(log_p));
    // Centred before it is squared: the definition, where the accumulators subtract two sums.
    const at::Tensor surprisal = -log_p / shared::ln2, p = log_p.exp();
    const at::Tensor centred = surprisal - (p * surprisal).nan_to_num().sum(-1, true);
    const std::vector<double> varentropies = to_vector((p * centred * centred).nan_to_num().sum(-1));
    const std::vector<double> top1 = to_vector(log_p.amax(-1).exp()), top1_logits = to_vector(z.amax(-1));
    // The first of equal maxima: ATen's argmax does not promise which.
    const at::Tensor ids = at::arange(z.size(1), z.options().dtype(at::kLong)).expand_as(z);
    const at::Tensor first = at::where(z == z.amax(-1, true), ids, at::full_like(ids, z.size(1))).amin(-1);
    const std::vector<double> top1_ids = to_vector(first);
    std::vector<RowStatistics> result;
    for (size_t r = 0; r < log_zs.size(); ++r) {
        if (finite[r] != 0.0) {
            result.push_back({log_zs[r], std::max(entropies[r], 0.0), top1[r],
                              static_cast<int64_t>(top1_ids[r]), true, varentropies[r], top1_logits[r]});
        } else {
            result.push_back({nan, nan, nan, -1, false, nan, nan});
        }
    }
    return result;
}

TopK top_k(const at::Tensor& row, int64_t k) {
    std::vector<double> logits = to_vector(row);
    for (double& logit : logits) {
        if (std::isnan(logit)) logit = -std::numeric_limits<double>::infinity();
    }
    std::vector<int32_t> ids(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
    std::ranges::stable_sort(ids, [&](int32_t a, int32_t b) {
        return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    });
    ids.resize(static_cast<size_t>(std::min<int64_t>(k, row.size(0))));
    TopK top;
    for (const int32_t id : ids) {
        top.ids.push_back(id);
        top.logits.push_back(static_cast<float>(logits[static_cast<size_t>(id)]));
    }
    return top;
}

std::vector<double> kl_divergence(const at::Tensor& p_logits, const at::Tensor& q_logits) {
    const at::Tensor log_p = at::log_softmax(p_logits.to(at::kDouble), -1);
    const at::Tensor log_q = at::log_softmax(q_logits.to(at::kDouble), -1);
    const at::Tensor finite = at::isfinite(p_logits).all(-1) & at::isfinite(q_logits).all(-1);
    const at::Tensor kl = (log_p.exp() * (log_p - log_q)).sum(-1).clamp_min(0.0);
    return to_vector(at::where(finite, kl, at::full_like(kl, nan)));
}

std::vector<RowSummary> summarize_rows(const at::Tensor& rows, const RowAsk& ask) {
    std::vector<RowSummary> result;
    const std::vector<RowStatistics> statistics = row_statistics(rows);
    for (size_t r = 0; r < statistics.size(); ++r) {
        const auto at_row = static_cast<int64_t>(r);
        RowSummary row;
        row.statistics = statistics[r];
        if (ask.top_k > 0) row.top = top_k(rows[at_row], std::min(ask.top_k, rows.size(1)));
        if (!ask.tokens.empty() && ask.tokens[r] >= 0)
            row.logprob = rows[at_row][ask.tokens[r]].item<double>() - row.statistics.log_z;
        if (!ask.kl_rows.empty() && ask.kl_rows[r] >= 0) {
            const at::Tensor other = ask.kl_against[ask.kl_rows[r]].to(rows.device());
            row.kl_nats = kl_divergence(rows.narrow(0, at_row, 1), other.unsqueeze(0))[0];
        }
        result.push_back(std::move(row));
    }
    return result;
}

McStatistics mc_statistics(const at::Tensor& row0, const at::Tensor& rows) {
    const at::Tensor z = rows.to(at::kDouble);
    const int64_t passes = z.size(0);
    const bool finite = (at::isfinite(z).all() & at::isfinite(row0).all()).item<bool>();
    if (!finite) return {nan, nan, nan, nan, nan};
    const at::Tensor e = z - row0.to(at::kDouble);
    McStatistics mc;
    mc.variance = variance(e);
    mc.variance_sd = nan;
    if (passes >= 3) {
        std::vector<double> without;
        for (int64_t i = 0; i < passes; ++i) {
            without.push_back(variance(at::cat({e.narrow(0, 0, i), e.narrow(0, i + 1, passes - i - 1)})));
        }
        const double n = static_cast<double>(passes);
        const double mean = std::accumulate(without.begin(), without.end(), 0.0) / n;
        double spread = 0;
        for (const double u : without)
            spread += (u - mean) * (u - mean);
        mc.variance_sd = std::sqrt((n - 1) / n * spread);
    }
    const at::Tensor log_p = at::log_softmax(z, -1);
    const at::Tensor entropies = entropy_bits(log_p);
    const at::Tensor mean_log_p = at::logsumexp(log_p, 0) - std::log(static_cast<double>(passes));
    mc.mean_entropy_bits = entropies.mean().item<double>();
    mc.mean_entropy_sd_bits = entropies.std(0, /*unbiased=*/true).item<double>();
    mc.mutual_information_bits =
        std::max(entropy_bits(mean_log_p).item<double>() - mc.mean_entropy_bits, 0.0);
    return mc;
}

} // namespace refreshlab::kernels::reference
