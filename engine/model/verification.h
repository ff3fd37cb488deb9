#pragma once

#include "engine/control/run_config.h"
#include "engine/model/sampler.h"
#include "kernels/ops/row_statistics.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace refreshlab {

/// The two rows of logits that predict one drafted token; [vocab] fp32, each on its model's device.
struct DraftRows {
    const at::Tensor& teacher;
    const at::Tensor& student; ///< the token was drawn from it
    const kernels::RowStatistics& teacher_statistics;
};

/// What becomes of a drafted token.
struct Judgement {
    bool stays = false;
    /// Of the token by either row, after temperature and filters; at temperature 0, where these are 0 or 1, of the raw rows.
    double p_teacher = 0, p_student = 0;
    /// Probability that a token drawn from the student's row stays: sum of min(p, q) under VerifyRule::exact.
    double expected = 0;
    std::optional<Choice> instead; ///< where it does not stay: the teacher's
};

/// Judges the token of `position` by a rule (VerifyRule has the formulas and their sources). Random numbers are keyed by (seed,
/// position, attempt), with purposes of their own, so that neither decision depends on the draw of the token.
/// What takes the place of a token that does not stay: under `exact` a draw from norm(max(p - q, 0)), under `greedy` the arg max of p,
/// else a draw from p without the token; at temperature 0 always the arg max.
/// Cost: at temperature 0 one number of each row crosses to the host, else both rows do.
[[nodiscard]] Judgement judge_token(const DraftRows& rows, int32_t token, const Verification& verify,
                                    const SamplerConfig& sampler, uint64_t seed, int64_t position,
                                    uint32_t attempt);

} // namespace refreshlab
