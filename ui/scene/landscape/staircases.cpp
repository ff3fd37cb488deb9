#include "ui/scene/landscape/staircases.h"

#include "engine/base/error.h"
#include "engine/record/recording/step_record.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/scene/landscape/cell_values.h"
#include "ui/scene/landscape/objective_words.h"

#include <fmt/format.h>

#include <algorithm>

namespace refreshlab::ui {

namespace {

void judge(ShownStairs& shown, const Landscape& landscape, std::span<const Schedule> best) {
    const double teacher = teacher_value(landscape, shown.objective);
    shown.above_teacher = shown.stairs.loss - teacher;
    shown.told =
        told_value(shown.objective, teacher, shown.stairs.loss, landscape.num_steps(), shown.refreshes());
    const size_t k = shown.stairs.refreshes.size();
    if (k < best.size())
        shown.efficiency =
            efficiency(value_without_refresh(landscape, shown.objective), shown.stairs.loss, best[k].loss);
}

std::string no_rows() {
    return "the first row is not there yet";
}

ShownStairs stairs_of_schedule(const Landscape& landscape, StairsOf of, const Schedule& schedule,
                               std::span<const Schedule> best, Objective objective) {
    ShownStairs shown;
    shown.of = of;
    shown.objective = objective;
    shown.stairs = walk_schedule(landscape, schedule.steps, objective);
    judge(shown, landscape, best);
    return shown;
}

} // namespace

RunRefreshes refreshes_of(const Recording& recording, int64_t steps) {
    RunRefreshes run;
    const auto& events = recording.refreshes();
    for (size_t i = 0, n = events.size(); i < n && events[i].step <= steps; ++i) {
        const RefreshEvent& event = events[i];
        if (event.fired_step != event.step) {
            run.why_not = "its refreshes lag: entries written meanwhile stay";
        } else if (event.spliced < event.delta) {
            run.why_not = "its refreshes are windowed: older entries stay as they are";
        } else if (event.on_fire != OnFire::keep && event.on_fire != OnFire::verify) {
            run.why_not = "its refreshes drew tokens again";
        }
        if (!run.why_not.empty()) return run;
        run.steps.push_back(event.step);
    }
    return run;
}

ShownStairs stairs_of_policy(const Landscape& landscape, const RefreshPolicy& policy,
                             std::span<const Schedule> best, Objective objective) {
    ShownStairs shown;
    shown.of = StairsOf::policy;
    shown.objective = objective;
    shown.name = policy.name;
    shown.why_not = landscape.has_row(0) ? why_no_staircase(landscape, policy) : no_rows();
    if (!shown.there()) return shown;
    // A schedule for a longer text ends with this one.
    RefreshPolicy walked = policy;
    std::erase_if(walked.at, [&](int64_t step) { return step >= landscape.num_steps(); });
    shown.stairs = walk_policy(landscape, walked, objective);
    judge(shown, landscape, best);
    return shown;
}

ShownStairs stairs_of_run(const Landscape& landscape, const RunRefreshes& run, std::span<const Schedule> best,
                          Objective objective) {
    ShownStairs shown;
    shown.of = StairsOf::run;
    shown.objective = objective;
    shown.why_not = landscape.has_row(0) ? run.why_not : no_rows();
    if (!shown.there()) return shown;
    Schedule schedule{run.steps, 0};
    std::erase_if(schedule.steps, [&](int64_t step) { return step >= landscape.num_steps(); });
    return stairs_of_schedule(landscape, StairsOf::run, schedule, best, objective);
}

CountAnswer answer_count(const CountQuestion& question) {
    const Landscape& landscape = *question.landscape;
    static const std::vector<Schedule> none;
    const std::vector<Schedule>& best = question.best ? *question.best : none;
    const int64_t k = question.refreshes;
    CountAnswer answer;
    answer.blind.of = StairsOf::blind;
    answer.best.of = StairsOf::best;
    answer.blind.objective = answer.best.objective = question.objective;
    if (!landscape.has_row(0)) {
        answer.blind.why_not = answer.best.why_not = no_rows();
        return answer;
    }
    if (k == 0) {
        answer.blind.why_not = answer.best.why_not = "the policy refreshes nothing";
        return answer;
    }
    answer.placement = blind_placement(landscape, k, question.objective);
    if (answer.placement)
        answer.blind =
            stairs_of_schedule(landscape, StairsOf::blind, answer.placement->best, best, question.objective);
    else
        answer.blind.why_not = "no phase has all its rows yet";
    if (static_cast<size_t>(k) < best.size())
        answer.best = stairs_of_schedule(landscape, StairsOf::best, best[static_cast<size_t>(k)], best,
                                         question.objective);
    else
        answer.best.why_not = question.best ? "more refreshes than the best schedules were looked for"
                                            : "the best schedules are being computed";
    return answer;
}

int64_t best_counts(const Landscape& landscape) {
    const auto rows = static_cast<double>(std::max<size_t>(landscape.rows().size(), 1));
    constexpr double additions = 1e9; // about a second
    const auto affordable = static_cast<int64_t>(additions / (rows * rows / 2));
    return std::min(landscape.num_tokens() - 2, std::max<int64_t>(32, affordable));
}

std::vector<StairCorner> corners_of(const Staircase& stairs) {
    std::vector<StairCorner> corners;
    const auto corner = [&](double column, int64_t row) {
        corners.push_back({column, static_cast<double>(row) + 0.5});
    };
    for (size_t i = 0; i < stairs.rows.size(); ++i) {
        const auto column = static_cast<double>(i);
        if (i == 0 || stairs.rows[i] != stairs.rows[i - 1]) {
            if (i > 0) corner(column, stairs.rows[i - 1]);
            corner(column, stairs.rows[i]);
        }
    }
    if (!stairs.rows.empty()) corner(static_cast<double>(stairs.rows.size()), stairs.rows.back());
    return corners;
}

std::vector<float> gains_along(const Landscape& landscape, const Staircase& run, Objective objective) {
    std::vector<float> gains(run.rows.size(), absent());
    for (size_t i = 0; i + 1 < run.rows.size(); ++i) {
        const int64_t boundary = static_cast<int64_t>(i) + 1, row = run.rows[i];
        if (boundary >= landscape.num_rows() || !landscape.has_row(boundary)) continue;
        gains[i] = static_cast<float>(refresh_gain(landscape, row, boundary, gain_horizon, objective));
    }
    return gains;
}

} // namespace refreshlab::ui
