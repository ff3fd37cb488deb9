#pragma once

#include "engine/refresh/planner.h"

#include <cstdint>
#include <vector>

namespace refreshlab {

class Recording;

/// A boundary at which a limit kept the policy from refreshing.
struct BlockedFire {
    int64_t step = 0;
    bool budget = false, cooldown = false; ///< which of the two limits did; both are possible
    std::vector<TriggerHit> hits; ///< the triggers that looked at this step and were beyond their thresholds
};

/// Where a budget or a cool-down kept the policy of a recorded run from firing. What was recorded at each boundary is
/// judged again by the policy of that step, without its limits. A KL trigger is judged where its probe was made. Under
/// `all` no probe is made while another trigger cools down, so nothing is known there.
/// Cost: O(steps * triggers).
[[nodiscard]] std::vector<BlockedFire> blocked_fires(const Recording& recording);

} // namespace refreshlab
