#pragma once

#include "engine/landscape/best_schedule.h"
#include "engine/landscape/frontier.h"
#include "engine/landscape/landscape.h"
#include "engine/landscape/objective.h"
#include "engine/refresh/policy.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// Loss against refreshes for the thresholds of one trigger.
struct FrontierCurve {
    RefreshPolicy policy; ///< whose trigger's threshold goes through the points; all else as it is
    size_t trigger = 0;
    bool of_draft = false; ///< a trigger of the policy that is drafted now
    std::vector<FrontierPoint>
        points; ///< by rising count, of one count the least loss: what a person would choose
};

struct FrontierQuestion {
    std::shared_ptr<const Landscape> landscape;
    RefreshPolicy policy; ///< the draft; thresholds of its own curves do not matter, see frontier_question()
    Objective objective = Objective::loss;
    friend bool operator==(const FrontierQuestion&, const FrontierQuestion&) = default;
};

/// A question that stays the same while the threshold of a policy with one trigger is dragged: nothing is computed again then.
[[nodiscard]] FrontierQuestion frontier_question(std::shared_ptr<const Landscape> landscape,
                                                 RefreshPolicy draft, Objective objective);

/// The curves of the draft's triggers, then one for every signal that could be one (frontier_policies()). A draft without a staircase
/// has none of its own. Cost: some dozens of walks for each curve.
[[nodiscard]] std::vector<FrontierCurve> frontier_curves(const FrontierQuestion& question);

/// What a click on a point makes of the draft: its own trigger gets the threshold, or the curve's policy takes its place.
struct FrontierClick {
    std::optional<size_t> trigger; ///< of the draft: only its threshold changes
    RefreshPolicy policy;          ///< else the whole
    double threshold = 0;
};
[[nodiscard]] FrontierClick frontier_click(const RefreshPolicy& draft, const FrontierCurve& curve,
                                           const FrontierPoint& point);

/// A place of the plot, in pixels; the nearest point of all curves within reach.
struct FrontierHit {
    size_t curve = 0, point = 0;
};
/// \param x_of, y_of  pixels of a count and a loss
template <class X, class Y>
[[nodiscard]] std::optional<FrontierHit> nearest_point(const std::vector<FrontierCurve>& curves, double x,
                                                       double y, double reach, const X& x_of, const Y& y_of) {
    std::optional<FrontierHit> nearest;
    double least = reach * reach;
    for (size_t c = 0; c < curves.size(); ++c) {
        for (size_t p = 0; p < curves[c].points.size(); ++p) {
            const FrontierPoint& point = curves[c].points[p];
            const double dx = x_of(static_cast<double>(point.refreshes)) - x, dy = y_of(point.loss) - y;
            const double away = dx * dx + dy * dy;
            if (away > least || (nearest && away == least)) continue; // of two the first: the draft's own
            least = away;
            nearest = FrontierHit{c, p};
        }
    }
    return nearest;
}

/// Refreshes that the plot shows when nobody has zoomed: beyond twice what the policy makes there is little to see.
[[nodiscard]] int64_t shown_counts(int64_t num_tokens, int64_t policy_refreshes);

} // namespace refreshlab::ui
