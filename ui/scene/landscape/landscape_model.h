#pragma once

#include "engine/landscape/best_schedule.h"
#include "engine/landscape/landscape.h"
#include "ui/scene/landscape/frontier_curves.h"
#include "ui/scene/landscape/landscape_view.h"
#include "ui/scene/landscape/staircases.h"

#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::ui {

// What a landscape's picture and its frontier show, for the panel and for figures. The panel asks for the parts as jobs.

/// The best schedules by count, and the mean over its phases of blind placement.
struct BestAnswer {
    std::shared_ptr<const std::vector<Schedule>> best; ///< null: row 0 is not there
    std::vector<BlindPlacement> blind;
};
struct BestQuestion {
    std::shared_ptr<const Landscape> landscape;
    int64_t counts = 0;
    Objective objective = Objective::loss;
    friend bool operator==(const BestQuestion&, const BestQuestion&) = default;
};
[[nodiscard]] BestAnswer find_best(const BestQuestion& question);

using AllStairs = std::array<ShownStairs, num_stairs>; ///< by StairsOf
/// Refreshes with which blind placement and the best are compared: the policy's; where it has no staircase, the run's.
[[nodiscard]] int64_t compared_count(const AllStairs& stairs);
/// Names for a person, by whose they are; the policy's is its own.
void name_stairs(AllStairs& stairs);

/// A line of the frontier plot: refreshes and loss under the objective above the teacher's, by rising count.
using FrontierLine = std::vector<std::pair<double, double>>;
/// What nobody can go below: a count that may go unused never makes it worse.
[[nodiscard]] FrontierLine best_line(const BestAnswer& answer, double teacher_loss);
[[nodiscard]] FrontierLine blind_line(const BestAnswer& answer, double teacher_loss);
[[nodiscard]] FrontierLine curve_line(const FrontierCurve& curve, double teacher_loss);
/// What the plot shows as long as nobody has zoomed. \param best  null: not known yet
[[nodiscard]] FrontierRange fitted_frontier(const Landscape& landscape, const BestAnswer* best,
                                            const AllStairs& stairs, Objective objective);
/// The signal whose thresholds go through the curve.
[[nodiscard]] const std::string& signal_of(const FrontierCurve& curve);
/// "Entropy (this policy)". \param table  with the run's own signals
[[nodiscard]] std::string label_of(const FrontierCurve& curve, std::span<const Signal> table);

/// All of it at once. Cost: that of find_best(), and some dozens of walks for each curve.
struct LandscapeModel {
    std::shared_ptr<const Landscape> landscape;
    Objective objective = Objective::loss;
    double teacher_loss = 0; ///< teacher_value()
    BestAnswer best;
    AllStairs stairs;
    [[nodiscard]] const ShownStairs& of(StairsOf whose) const { return stairs[static_cast<size_t>(whose)]; }
};
[[nodiscard]] LandscapeModel make_landscape_model(std::shared_ptr<const Landscape> landscape,
                                                  const RunRefreshes& run, const RefreshPolicy& policy,
                                                  Objective objective);

} // namespace refreshlab::ui
