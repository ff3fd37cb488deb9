#include "engine/refresh/calibrate.h"

#include "engine/base/check.h"
#include "engine/base/quantile.h"
#include "engine/signals/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace refreshlab {

namespace {

/// Fires that must be due among the checks. With less than one the threshold lies between the two largest values and the
/// run fires once all the same; below a half even that is more than was asked for.
constexpr double least_fires = 0.5;

bool fires_upwards(Comparison comparison) {
    return comparison == Comparison::above || comparison == Comparison::at_least;
}

CalibrationResult refused(std::string why) {
    return {std::nullopt, std::move(why)};
}

/// The policy with this threshold on these values; the trigger counts as switched on.
CalibrationResult tried(RefreshPolicy policy, size_t trigger, Calibration calibration,
                        const RecordedRun& run) {
    policy.triggers[trigger].threshold = calibration.threshold;
    policy.triggers[trigger].enabled = true;
    calibration.outcome = what_if(policy, run);
    return {std::move(calibration), {}};
}

} // namespace

CalibrationResult calibrate(const RefreshPolicy& policy, size_t trigger, double per_1000,
                            const RecordedRun& run) {
    RL_ASSERT(trigger < policy.triggers.size());
    const Trigger& card = policy.triggers[trigger];
    const std::span<const Signal> table = run.table.empty() ? signals() : run.table;
    if (card.published && !find_signal(table, card.signal))
        return refused(fmt::format("{} was not published by a component of this run", card.signal));
    const size_t signal = require_signal(table, card.signal, "calibrating a threshold");
    const std::string label(table[signal].label);
    if (!std::isfinite(per_1000) || per_1000 <= 0) return refused("The number of refreshes must be above 0");

    if (card.signal == "steps_since_refresh") {
        if (!fires_upwards(card.comparison))
            return refused(
                fmt::format("{} fires right after each refresh with \"{}\": no threshold gives a rate", label,
                            to_string(card.comparison)));
        if (per_1000 > 1000) return refused("There is at most one refresh per token");
        // "Above" fires one token later than "at least".
        const double distance = std::max(1.0, std::round(1000 / per_1000));
        const double threshold = card.comparison == Comparison::above ? distance - 1 : distance;
        return tried(policy, trigger, {threshold, std::nullopt, 0, {}}, run);
    }

    const int32_t stride = std::max(1, card.every);
    const double q = calibration_quantile(per_1000, stride);
    if (!(q > 0))
        return refused(
            fmt::format("Checks {} {} apart are no more than {:g} per 1,000 tokens: check more often", stride,
                        stride == 1 ? "token" : "tokens", per_1000));
    std::vector<double> values;
    for (int64_t t = stride; t <= run.steps; t += stride) {
        const float value = recorded_value(run, card, signal, t);
        if (std::isfinite(value)) values.push_back(static_cast<double>(value));
    }
    const auto checks = std::ssize(values);
    if (checks == 0) return refused(fmt::format("{} was not measured at any check of this run", label));
    // In checks rather than tokens: where the signal was measured now and then only, tokens would promise too much.
    const double due = 1000 / (per_1000 * stride); // checks from fire to fire
    const auto needed = std::max<int64_t>(2, static_cast<int64_t>(std::ceil(least_fires * due)));
    if (checks < needed)
        return refused(fmt::format("{} checks are too few: {:g} refreshes per 1,000 tokens take {} or more",
                                   checks, per_1000, needed));
    const double threshold = *quantile(std::move(values), fires_upwards(card.comparison) ? q : 1 - q);
    return tried(policy, trigger, {threshold, q, checks, {}}, run);
}

} // namespace refreshlab
