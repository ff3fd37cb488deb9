#include "ui/scene/landscape/landscape_model.h"

#include "engine/signals/registry.h"

#include <algorithm>
#include <limits>
#include <string_view>

namespace refreshlab::ui {
namespace {

constexpr std::string_view stairs_keys[num_stairs] = {"run", "policy", "blind", "best"}; // in settings

} // namespace

StoredLandscapeView stored(const LandscapeView& view) {
    StoredLandscapeView kept{.value = key_of(view.cells.value),
                             .ranges = stored_ranges(view.cells.ranges),
                             .hidden = {},
                             .objective = {},
                             .scope = std::string(key_of(view.scope))};
    if (view.objective) kept.objective = to_string(*view.objective);
    for (size_t i = 0; i < num_stairs; ++i)
        if (!view.stairs[i]) kept.hidden.emplace_back(stairs_keys[i]);
    return kept;
}

LandscapeView landscape_view(const StoredLandscapeView& stored) {
    LandscapeView view;
    if (const auto value = cell_value_of(stored.value)) view.cells.value = *value;
    view.cells.ranges = own_ranges(stored.ranges);
    const auto judged = std::ranges::find_if(
        objectives, [&](Objective objective) { return to_string(objective) == stored.objective; });
    if (judged != std::end(objectives)) view.objective = *judged;
    view.scope = scope_measure(stored.scope).value_or(ScopeMeasure::alone);
    for (size_t i = 0; i < num_stairs; ++i)
        view.stairs[i] = std::ranges::find(stored.hidden, stairs_keys[i]) == stored.hidden.end();
    return view;
}

BestAnswer find_best(const BestQuestion& question) {
    BestAnswer answer;
    const Landscape& landscape = *question.landscape;
    if (!landscape.has_row(0)) return answer;
    answer.best = std::make_shared<const std::vector<Schedule>>(
        best_schedules(landscape, question.counts, question.objective));
    constexpr int64_t most_blind = 64;
    for (int64_t k = 1; k <= std::min(question.counts, most_blind); ++k)
        if (auto placement = blind_placement(landscape, k, question.objective))
            answer.blind.push_back(std::move(*placement));
    return answer;
}

int64_t compared_count(const AllStairs& stairs) {
    const ShownStairs& policy = stairs[static_cast<size_t>(StairsOf::policy)];
    const ShownStairs& counted = policy.there() ? policy : stairs[static_cast<size_t>(StairsOf::run)];
    return counted.there() ? counted.refreshes() : 0;
}

void name_stairs(AllStairs& stairs) {
    stairs[static_cast<size_t>(StairsOf::run)].name = "This run";
    stairs[static_cast<size_t>(StairsOf::blind)].name = "Blind, at best";
    stairs[static_cast<size_t>(StairsOf::best)].name = "Best possible";
}

FrontierLine best_line(const BestAnswer& answer, double teacher_loss) {
    FrontierLine line;
    if (!answer.best) return line;
    double least = std::numeric_limits<double>::infinity(); // best_of_at_most(), of all counts at once
    for (const Schedule& schedule : *answer.best) {
        least = std::min(least, schedule.loss);
        line.emplace_back(static_cast<double>(line.size()), least - teacher_loss);
    }
    return line;
}

FrontierLine blind_line(const BestAnswer& answer, double teacher_loss) {
    FrontierLine line;
    for (const BlindPlacement& blind : answer.blind)
        line.emplace_back(static_cast<double>(blind.refreshes), blind.mean_loss - teacher_loss);
    return line;
}

FrontierLine curve_line(const FrontierCurve& curve, double teacher_loss) {
    FrontierLine line;
    for (const FrontierPoint& point : curve.points)
        line.emplace_back(static_cast<double>(point.refreshes), point.loss - teacher_loss);
    return line;
}

FrontierRange fitted_frontier(const Landscape& landscape, const BestAnswer* best, const AllStairs& stairs,
                              Objective objective) {
    const int64_t of_policy = compared_count(stairs);
    const double teacher = teacher_value(landscape, objective);
    const bool known = best && best->best && !best->best->empty();
    int64_t most = shown_counts(landscape.num_tokens(), of_policy);
    if (best && best->best) most = std::min(most, std::max(std::ssize(*best->best) - 1, 2 * of_policy));
    const auto counts = static_cast<double>(std::max<int64_t>(most, 1));
    const double none = landscape.has_row(0) ? value_without_refresh(landscape, objective) - teacher : 1;
    double least = 0;
    if (known) {
        const size_t k = std::min(best->best->size() - 1, static_cast<size_t>(counts));
        least = best_of_at_most(*best->best, k).loss - teacher;
    }
    const double margin = std::max((none - least) * 0.08, 1e-3);
    return {{-0.03 * counts, counts}, {least - margin, none + 3 * margin}};
}

const std::string& signal_of(const FrontierCurve& curve) {
    return curve.policy.triggers[curve.trigger].signal;
}

std::string label_of(const FrontierCurve& curve, std::span<const Signal> table) {
    const std::string& signal = signal_of(curve);
    const auto id = find_signal(table, signal);
    return (id ? std::string(table[*id].label) : signal) + (curve.of_draft ? " (this policy)" : "");
}

LandscapeModel make_landscape_model(std::shared_ptr<const Landscape> landscape, const RunRefreshes& run,
                                    const RefreshPolicy& policy, Objective objective) {
    LandscapeModel model;
    model.landscape = std::move(landscape);
    const Landscape& land = *model.landscape;
    model.objective = objective;
    model.teacher_loss = teacher_value(land, objective);
    model.best = find_best({model.landscape, best_counts(land), objective});
    const std::span<const Schedule> best =
        model.best.best ? std::span<const Schedule>(*model.best.best) : std::span<const Schedule>();
    const auto at = [&](StairsOf of) -> ShownStairs& { return model.stairs[static_cast<size_t>(of)]; };
    at(StairsOf::run) = stairs_of_run(land, run, best, objective);
    at(StairsOf::policy) = stairs_of_policy(land, policy, best, objective);
    CountAnswer count =
        answer_count({model.landscape, model.best.best, compared_count(model.stairs), objective});
    at(StairsOf::blind) = std::move(count.blind);
    at(StairsOf::best) = std::move(count.best);
    name_stairs(model.stairs);
    return model;
}

} // namespace refreshlab::ui
