#pragma once

#include "engine/landscape/landscape.h"
#include "engine/landscape/objective.h"
#include "engine/landscape/staircase.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace refreshlab {

/// Refreshes at given boundaries, and what they give.
struct Schedule {
    std::vector<int64_t> steps; ///< boundaries, ascending
    double loss = 0;            ///< mean over y_2 .. y_N under the objective
};

/// The best schedules with exactly 0, 1, .. max_refreshes refreshes, by dynamic programming over the rows that are there:
/// f_0(b) = c(0, b), f_m(b) = min over a < b of f_{m-1}(a) + c(a, b). On a coarse landscape a schedule is restricted to its rows,
/// and exact for them. Fewer entries where there are fewer boundaries. Of two that are equally good the earlier one.
/// Every objective is a sum over cells, so the programme is the same. Under tokens_a_pass k refreshes are k + 1 passes whatever their
/// places, so the greatest sum of a count is its greatest ratio.
/// An exact count may be worse than a smaller one: best_of_at_most() is the boundary that never rises.
/// Cost: max_refreshes * rows^2 / 2 additions.
[[nodiscard]] std::vector<Schedule> best_schedules(const Landscape& landscape, int64_t max_refreshes,
                                                   Objective objective = Objective::loss);

/// The one with the least loss among entries 0 .. k of best_schedules(); not empty                       (asserted)
[[nodiscard]] const Schedule& best_of_at_most(std::span<const Schedule> best, size_t k);

/// The schedule with the least total loss when every refresh costs `price` (of the sum over the text, not of the
/// mean, in the objective's unit).
[[nodiscard]] Schedule best_at_price(const Landscape& landscape, double price,
                                     Objective objective = Objective::loss);

/// Counts on the lower convex hull of (refreshes, loss): what some price makes the best. Ascending, the first is 0.
[[nodiscard]] std::vector<size_t> hull_of(std::span<const Schedule> best);

/// Blind placement of k refreshes: stride R = (N - 2) / k, phases p = 1 .. R, refreshes at p, p + R, ...
struct BlindPlacement {
    int64_t refreshes = 0, stride = 0;
    Schedule best, worst; ///< over the phases whose rows are there
    double mean_loss = 0; ///< over those phases: what a person gets who does not look
    int64_t phases = 0;   ///< how many those are
};
/// Nothing for no refreshes, for more than there are boundaries, and where no phase has all its rows.
[[nodiscard]] std::optional<BlindPlacement> blind_placement(const Landscape& landscape, int64_t refreshes,
                                                            Objective objective = Objective::loss);

/// (none - loss) / (none - best): 0 = no better than no refresh, 1 = nobody can place so many better, negative = worse than
/// none. Nothing where the best gains nothing, so that there is nothing to share.
[[nodiscard]] std::optional<double> efficiency(double none, double loss, double best);

} // namespace refreshlab
