#pragma once

#include "engine/refresh/planner.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace refreshlab {

/// Recorded signals of a run, as the preview needs them.
struct RecordedRun {
    int64_t steps = 0;                                        ///< boundaries 1 .. steps
    std::function<float(int64_t step, size_t signal)> signal; ///< absent() where not measured
    /// Boundaries at which refreshes fired (a lagged one lands later), ascending; one that was by hand and by a trigger
    /// stands in both.
    std::vector<int64_t> automatic_fires, manual_fires;
    double refresh_ms = 0;     ///< mean cost of one refresh, passes included; 0 = unknown
    double refresh_tokens = 0; ///< mean tokens that the teacher read for one; 0 = unknown
    double decode_ms = 0;      ///< decode time without refreshes
    /// Layer values of a step, for triggers that reduce: Recording::layer_values(). May be empty: none was measured.
    std::function<std::span<const float>(int64_t step, size_t signal)> layer_values = {};
    std::span<const Signal> table = {}; ///< Recording::signals(); empty stands for the registry
};

/// What a trigger compares at a step; absent() where it was not measured.
[[nodiscard]] float recorded_value(const RecordedRun& run, const Trigger& trigger, size_t signal,
                                   int64_t step);

/// "at 5.2 bits: 7 refreshes, +11 % time (estimate)".
struct WhatIf {
    std::vector<int64_t> fires; ///< boundaries at which the policy would have fired on the recorded values
    /// First difference from the recorded fires: exact up to and including it; nothing = no difference. Values that were
    /// not measured (missing) make even that part a guess.
    std::optional<int64_t> exact_until;
    /// Time of the policy's refreshes and probes against the decode, estimated; nothing while costs are unknown. A pass reads as
    /// many tokens as there are since the one before. Its cost is known for the recorded number alone, so both ends are given: a
    /// pass costs the same however much it reads, and its cost goes with what it reads.
    struct Overhead {
        double low_percent = 0, high_percent = 0;
    };
    std::optional<Overhead> overhead;
    int64_t missing = 0; ///< boundaries whose needed signal was not measured
};

/// Replays recorded signals with another policy (reference/refresh.md, "Threshold preview"). steps_since_refresh and
/// probe strides follow the predicted fires, not the recorded ones. Cost O(steps * triggers).
[[nodiscard]] WhatIf what_if(const RefreshPolicy& policy, const RecordedRun& run);

} // namespace refreshlab
