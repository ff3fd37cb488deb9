#pragma once

#include "engine/landscape/best_schedule.h"
#include "engine/landscape/landscape.h"
#include "engine/landscape/objective.h"
#include "engine/landscape/staircase.h"
#include "engine/record/recording/recording.h"
#include "engine/refresh/policy.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// Whose way through a landscape it is.
enum class StairsOf : uint8_t {
    run,    ///< the refreshes that the shown run made
    policy, ///< the policy as it is drafted now
    blind,  ///< equal distances, as many refreshes as the policy
    best,   ///< nobody can place so many better
};
inline constexpr size_t num_stairs = 4;

/// A staircase and what it says. `why_not` where there is none: one line for a person.
struct ShownStairs {
    StairsOf of = StairsOf::run;
    std::string name;
    std::string why_not;
    Staircase stairs;
    Objective objective = Objective::loss;
    double above_teacher = 0;         ///< mean loss over y_2 .. y_N under the objective, above the teacher's
    double told = 0;                  ///< told_value(): what tables say
    std::optional<double> efficiency; ///< of its count; nothing where the best gains nothing, or is not known
    [[nodiscard]] bool there() const { return why_not.empty(); }
    [[nodiscard]] int64_t refreshes() const { return static_cast<int64_t>(stairs.refreshes.size()); }
    /// Every row that it enters was computed.
    [[nodiscard]] bool exact() const { return there() && !stairs.exact_until; }
};

/// Boundaries at which a run has refreshed, those with an unlimited window and no lag. `why_not` where there are others, or where
/// the run's text parts from the landscape's.
struct RunRefreshes {
    std::vector<int64_t> steps;
    std::string why_not;
    friend bool operator==(const RunRefreshes&, const RunRefreshes&) = default;
};
[[nodiscard]] RunRefreshes refreshes_of(const Recording& recording, int64_t steps);

/// The way of a policy or of a run's refreshes; efficiency where the best schedules reach so far.
/// \param best  entries 0 .. k of best_schedules() under the objective
[[nodiscard]] ShownStairs stairs_of_policy(const Landscape& landscape, const RefreshPolicy& policy,
                                           std::span<const Schedule> best, Objective objective);
[[nodiscard]] ShownStairs stairs_of_run(const Landscape& landscape, const RunRefreshes& run,
                                        std::span<const Schedule> best, Objective objective);

/// Blind placement and the best schedule of one count.
struct CountAnswer {
    ShownStairs blind, best;
    std::optional<BlindPlacement> placement; ///< with its mean over the phases
};
/// What that is asked of.
struct CountQuestion {
    std::shared_ptr<const Landscape> landscape;
    std::shared_ptr<const std::vector<Schedule>> best; ///< null: not known yet
    int64_t refreshes = 0;
    Objective objective = Objective::loss;
    friend bool operator==(const CountQuestion&, const CountQuestion&) = default;
};
/// Cost: as many walks as the stride of so many refreshes.
[[nodiscard]] CountAnswer answer_count(const CountQuestion& question);

/// Counts up to which the best schedules are looked for: all of them of a few rows, fewer where it takes long.
[[nodiscard]] int64_t best_counts(const Landscape& landscape);

/// Corners of a staircase in cells of the picture (column 0 is step 1): along the middle of its rows, down at a refresh.
struct StairCorner {
    double column = 0, row = 0;
};
[[nodiscard]] std::vector<StairCorner> corners_of(const Staircase& stairs);

/// By step: what a refresh at this boundary would have saved the run over gain_horizon steps, from where its own refreshes
/// had it stand (refresh_gain()); absent where the row was not computed, and at the last step. Empty where the run has no staircase.
[[nodiscard]] std::vector<float> gains_along(const Landscape& landscape, const Staircase& run,
                                             Objective objective);

} // namespace refreshlab::ui
