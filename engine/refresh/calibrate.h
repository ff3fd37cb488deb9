#pragma once

#include "engine/refresh/what_if.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace refreshlab {

/// A calibration wants at least so many tokens per model and prompt family (reference/refresh.md, section 5).
inline constexpr int64_t calibration_tokens = 2000;
/// Refreshes per 1,000 tokens where no number was asked for: between the 2 and 3 of the article.
inline constexpr double calibration_target = 2.5;

/// q = 1 - F*s/1000: the share of checks that are not to fire. Zero or less: there are too few checks for that many.
/// \param per_1000  F, refreshes per 1,000 tokens
/// \param stride    s, tokens from check to check; of a KL trigger from probe to probe
[[nodiscard]] constexpr double calibration_quantile(double per_1000, int32_t stride) {
    return 1 - per_1000 * stride / 1000;
}

/// A threshold for a wanted number of refreshes, and what speaks for it.
struct Calibration {
    double threshold = 0;
    /// Share of the checks on the side that does not fire; nothing for steps_since_refresh, which needs no values.
    std::optional<double> q;
    int64_t checks = 0; ///< measured, finite values at boundaries t mod s == 0
    WhatIf outcome;     ///< of the policy with this threshold, the trigger switched on, on the same values
};

/// One of the two is set.
struct CalibrationResult {
    std::optional<Calibration> found;
    std::string why_not; ///< for people: "120 checks are too few: ..."
};

/// The threshold at which one trigger fires `per_1000` times in 1,000 tokens, by the recorded values of a run
/// (reference/refresh.md, section 5, "Defaults where the article is silent"): the q-quantile of the signal at boundaries
/// t mod s == 0, and for `below` and `at_most` the quantile 1 - q, so that the other tail fires. Absent, NaN and infinite
/// values never fire and do not count. An estimate: cool-downs and budgets make fewer refreshes of the fires, other
/// triggers more, and after a refresh the values would be others; `outcome` knows the first two.
/// steps_since_refresh fires at a distance and not at a share of the checks: 1000 / F whole tokens.
/// No answer when F is not above 0 or too large for the stride, when the run is so short that not even half a refresh is
/// due in its checks, or when the signal was not measured.
/// \param trigger  index in the policy (asserted)
/// Cost: sorts the values, then one what_if().
[[nodiscard]] CalibrationResult calibrate(const RefreshPolicy& policy, size_t trigger, double per_1000,
                                          const RecordedRun& run);

} // namespace refreshlab
