#pragma once

#include "engine/landscape/landscape.h"
#include "engine/landscape/staircase.h"
#include "engine/refresh/policy.h"

#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab {

/// What one threshold gives on this text.
struct FrontierPoint {
    double threshold = 0;
    int64_t refreshes = 0;
    double loss = 0; ///< mean over y_2 .. y_N under the objective
};

/// Loss against refreshes for the thresholds of one trigger of a policy, all else as it is. Thresholds are taken from the signal's
/// own values over the cells, densely where few refreshes are made, and of several with one staircase the first stays. Ordered by
/// threshold.
/// \param trigger     index in the policy (asserted)
/// \param thresholds  how many are tried at most
/// Throws Error{bad_input} as walk_policy(). Cost: so many walks.
[[nodiscard]] std::vector<FrontierPoint> threshold_frontier(const Landscape& landscape,
                                                            const RefreshPolicy& policy, size_t trigger,
                                                            size_t thresholds = 64,
                                                            Objective objective = Objective::loss);

/// One trigger without stride and cool-down on every signal that can trigger and is in the landscape, and the periodic policy: the
/// curves that a frontier shows. A probability and a margin fire below their thresholds; a KL is probed every 8 tokens.
[[nodiscard]] std::vector<RefreshPolicy> frontier_policies(const Landscape& landscape);

} // namespace refreshlab
