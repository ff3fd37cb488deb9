#pragma once

#include "engine/policies/cache_policy.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace refreshlab {

/// How the last w prompt queries of a layer look at the columns before them: what CAKE and ARKV make of it. A[r][j] of a query head.
struct WindowMoments {
    struct Scores {
        int64_t window; ///< w
        int64_t kernel; ///< scores are pooled by the mean over so many columns
        double weight;  ///< of the variance in a score
    };
    double spread = 0;   ///< -sum A ln(A + 1e-10) over heads, rows and columns
    double change = 0;   ///< sum of the unbiased variance over the rows, over heads and columns
    double kurtosis = 0; ///< sum of m4 / m2^2 over heads and columns; moments over the rows, m2 at least 1e-8

    /// Adds the query heads of a KV head.
    /// \return scores of the columns before the window, [length - w]: mean + weight * variance over the rows, mean of the group, pooled
    std::vector<float> add(const PromptView& view, int64_t kv_head, const PolicyContext& context,
                           const Scores& scores);
    /// The 1e-10 makes the term of A = 1 a little less than 0.
    [[nodiscard]] double dispersion() const { return std::max(spread, 0.0); }
};

} // namespace refreshlab
