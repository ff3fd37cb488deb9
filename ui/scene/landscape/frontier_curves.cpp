#include "ui/scene/landscape/frontier_curves.h"

#include "engine/landscape/staircase.h"

#include <algorithm>
#include <utility>

namespace refreshlab::ui {

namespace {

/// Of one count the point with the least loss, by rising count.
std::vector<FrontierPoint> best_by_count(std::vector<FrontierPoint> points) {
    std::ranges::stable_sort(points, [](const FrontierPoint& a, const FrontierPoint& b) {
        return a.refreshes != b.refreshes ? a.refreshes < b.refreshes : a.loss < b.loss;
    });
    const auto [first, last] = std::ranges::unique(points, {}, &FrontierPoint::refreshes);
    points.erase(first, last);
    return points;
}

size_t enabled_triggers(const RefreshPolicy& policy) {
    return static_cast<size_t>(std::ranges::count_if(policy.triggers, &Trigger::enabled));
}

/// The two differ in the threshold of this trigger alone.
bool same_but_threshold(const RefreshPolicy& a, size_t trigger_a, const RefreshPolicy& b, size_t trigger_b) {
    if (a.triggers.size() != b.triggers.size() || trigger_a != trigger_b) return false;
    RefreshPolicy other = b;
    other.name = a.name;
    other.triggers[trigger_b].threshold = a.triggers[trigger_a].threshold;
    return other == a;
}

} // namespace

FrontierQuestion frontier_question(std::shared_ptr<const Landscape> landscape, RefreshPolicy draft,
                                   Objective objective) {
    draft.name.clear();
    std::erase_if(draft.triggers, [](const Trigger& trigger) { return !trigger.enabled; });
    if (draft.triggers.size() == 1)
        draft.triggers.front().threshold = 0; // its curve goes through all of them
    return {std::move(landscape), std::move(draft), objective};
}

std::vector<FrontierCurve> frontier_curves(const FrontierQuestion& question) {
    const Landscape& landscape = *question.landscape;
    std::vector<FrontierCurve> curves;
    if (!landscape.has_row(0)) return curves;
    const RefreshPolicy& draft = question.policy;
    constexpr size_t thresholds = 64; // of each curve
    const auto add = [&](const RefreshPolicy& policy, size_t trigger, bool of_draft) {
        FrontierCurve curve{policy, trigger, of_draft, {}};
        curve.points =
            best_by_count(threshold_frontier(landscape, policy, trigger, thresholds, question.objective));
        if (!curve.points.empty()) curves.push_back(std::move(curve));
    };
    if (why_no_staircase(landscape, draft).empty()) {
        for (size_t i = 0; i < draft.triggers.size(); ++i)
            add(draft, i, true);
    }
    const size_t own = curves.size();
    for (const RefreshPolicy& policy : frontier_policies(landscape)) {
        const bool drawn = std::any_of(curves.begin(), curves.begin() + static_cast<std::ptrdiff_t>(own),
                                       [&](const FrontierCurve& curve) {
                                           return same_but_threshold(curve.policy, curve.trigger, policy, 0);
                                       });
        if (!drawn) add(policy, 0, false);
    }
    return curves;
}

FrontierClick frontier_click(const RefreshPolicy& draft, const FrontierCurve& curve,
                             const FrontierPoint& point) {
    FrontierClick click;
    click.threshold = point.threshold;
    click.policy = curve.policy;
    if (click.policy.name.empty()) click.policy.name = draft.name;
    click.policy.triggers[curve.trigger].threshold = point.threshold;
    const std::string& signal = curve.policy.triggers[curve.trigger].signal;
    // The draft's trigger of this signal, where all else is as it is on the curve.
    RefreshPolicy bare = draft;
    std::erase_if(bare.triggers, [](const Trigger& trigger) { return !trigger.enabled; });
    const auto index = static_cast<size_t>(std::ranges::find(bare.triggers, signal, &Trigger::signal) -
                                           bare.triggers.begin());
    const bool same = index < bare.triggers.size() &&
                      enabled_triggers(draft) == curve.policy.triggers.size() &&
                      same_but_threshold(bare, index, curve.policy, curve.trigger);
    if (same) {
        const auto place = std::ranges::find_if(draft.triggers, [&](const Trigger& trigger) {
            return trigger.enabled && trigger.signal == signal;
        });
        click.trigger = static_cast<size_t>(place - draft.triggers.begin());
    }
    return click;
}

int64_t shown_counts(int64_t num_tokens, int64_t policy_refreshes) {
    return std::min(std::max<int64_t>(num_tokens - 2, 1),
                    std::max({2 * policy_refreshes, num_tokens / 16, int64_t{8}}));
}

} // namespace refreshlab::ui
