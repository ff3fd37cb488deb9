#pragma once

#include "engine/record/recording/recording.h"

#include <array>
#include <cstdint>
#include <optional>

namespace refreshlab {

/// How far a run's student is from its teacher, in the numbers that tables of KL divergence have. Over the places where both
/// rows are known (signals kl_nats, acceptance, same_top1); perplexities over all N tokens. Nothing where nothing was measured.
struct Divergence {
    int64_t kl_rows = 0; ///< places with a KL
    std::optional<double> kl_mean, kl_median, kl_p90, kl_p99,
        kl_max;                       ///< nats; quantiles between the two nearest values
    std::optional<double> same_top1;  ///< share of places where both have one first choice
    std::optional<double> acceptance; ///< mean
    std::optional<double> acceptance_low,
        acceptance_high; ///< 95 %: mean -+ 1.96 standard errors, in [0, 1]; from 2 places on
    /// Tokens that a draft of g = 1..8 tokens gives per pass of the teacher, the teacher's own included:
    /// (1 - a^(g+1)) / (1 - a) with a the mean acceptance. Source: Leviathan et al. 2023, eq. 1 (places taken as independent).
    std::optional<std::array<double, 8>> tokens_per_verify;
    std::optional<double>
        student_ppl; ///< exp of minus the mean of logprob: under the rows that the tokens were chosen by
    std::optional<double> ppl_ratio; ///< student_ppl / teacher_ppl
};

[[nodiscard]] Divergence divergence_of(const Recording& recording);

/// (1 - a^(g+1)) / (1 - a); g + 1 for a = 1.
[[nodiscard]] double expected_tokens(double acceptance, int32_t draft);

} // namespace refreshlab
