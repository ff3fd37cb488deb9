#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

/// What is computed from rows of logits: raw rows (temperature 1), in fp32 or wider. The accumulators are `__host__
/// __device__` in shared/row_accumulators.h, so the CPU suite covers what the GPU runs.
namespace refreshlab::kernels {

/// Statistics of one row of logits z, p = softmax(z).
struct RowStatistics {
    double log_z = 0;        ///< ln sum exp z
    double entropy_bits = 0; ///< (ln Z - sum p z) / ln 2
    double top1_prob = 0;    ///< max p
    int64_t top1_id = -1;    ///< arg max; ties go to the lower id
    bool finite = true;      ///< false if any logit is NaN or +-inf: then the doubles are NaN
    /// Varentropy: variance of -log2 p under p, bits^2. Source: Kontoyiannis and Verdu 2014.
    double varentropy_bits2 = 0;
    double top1_logit = 0; ///< max z
};

/// \param rows  [rows, vocab], float dtype, any device
[[nodiscard]] std::vector<RowStatistics> row_statistics(const at::Tensor& rows);

/// The k largest entries of one row, most likely first, ties to the lower id.
struct TopK {
    std::vector<int32_t> ids;
    std::vector<float> logits;
};
/// \param row  [vocab], any device; k is clamped to vocab. NaN counts as minus infinity.
[[nodiscard]] TopK top_k(const at::Tensor& row, int64_t k);

/// KL(p || q) = sum_i p_i (ln p_i - ln q_i) in nats, row by row; p, q: [rows, vocab] logits on one device.
/// Never negative (clamped at 0 against rounding).
[[nodiscard]] std::vector<double> kl_divergence(const at::Tensor& p_logits, const at::Tensor& q_logits);

/// Statistics over N Monte-Carlo dropout rows beside the deterministic row 0 (reference/refresh.md, 5 and 7).
struct McStatistics {
    double variance = 0;    ///< U = mean over the vocabulary of the unbiased variance of z_ij, logit^2
    double variance_sd = 0; ///< jackknife standard error of U over the passes; NaN for N < 3
    double mutual_information_bits = 0; ///< H(mean_i p_i) - mean_i H(p_i), not below 0
    double mean_entropy_bits = 0;       ///< mean_i H(p_i)
    double mean_entropy_sd_bits = 0;    ///< standard deviation of H(p_i) over the passes (unbiased)
};
/// \param row0   [vocab]
/// \param rows   [N, vocab], N >= 2                                                               (asserted)
[[nodiscard]] McStatistics mc_statistics(const at::Tensor& row0, const at::Tensor& rows);

namespace reference { // float64 ATen, any device
[[nodiscard]] std::vector<RowStatistics> row_statistics(const at::Tensor& rows);
[[nodiscard]] TopK top_k(const at::Tensor& row, int64_t k);
[[nodiscard]] std::vector<double> kl_divergence(const at::Tensor& p_logits, const at::Tensor& q_logits);
[[nodiscard]] McStatistics mc_statistics(const at::Tensor& row0, const at::Tensor& rows);
} // namespace reference

} // namespace refreshlab::kernels
