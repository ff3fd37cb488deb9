#include "engine/landscape/frontier.h"

#include "engine/base/check.h"
#include "engine/landscape/cell_signals.h"
#include "engine/signals/registry.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace refreshlab {

namespace {

constexpr int32_t probe_stride = 8;

/// Known after a teacher pass alone.
bool is_probed(const Signal& signal) {
    return signal.cost == SignalCost::teacher_pass;
}
/// Low values ask for a refresh.
bool fires_below(std::string_view signal) {
    return signal == "top1_prob" || signal == "top2_margin" || signal == "acceptance" ||
           signal == "same_top1";
}

bool is_kl(const std::string& signal) {
    return signal == "kl_nats" || signal == "kl_mean_nats";
}

/// A signal at step `at` of a staircase that stands in row j then or, before, in the rows that stand for those before it.
float usual_signal(const Landscape& landscape, std::string_view signal, int64_t j, int64_t at) {
    int64_t row = j;
    std::optional<int64_t> before = usual_row_before(landscape, row, std::max(at, row + 1));
    while (at <= row) { // ends at row 0
        row = *before;
        before = usual_row_before(landscape, row, std::max(at, row + 1));
    }
    return signal_at(landscape, signal, row, at, before);
}

/// Finite values of a signal that the policy defines, over some thousands of the cells, ascending.
std::vector<double> own_values(const Landscape& landscape, const OwnSignal& signal) {
    const size_t stride = landscape.bytes() / sizeof(float) / landscape.info().values.size() / 4000 + 1;
    std::vector<double> values;
    size_t cell = 0;
    for (const int64_t j : landscape.rows()) {
        for (int64_t step = j + 1; step <= landscape.num_steps(); ++step) {
            if (cell++ % stride != 0) continue;
            const float value = own_value(signal, step, [&](std::string_view term, int64_t at) {
                return usual_signal(landscape, term, j, at);
            });
            if (std::isfinite(value)) values.push_back(static_cast<double>(value));
        }
    }
    std::ranges::sort(values);
    return values;
}

/// Finite values of a trigger's signal over the cells, ascending.
std::vector<double> values_of(const Landscape& landscape, const RefreshPolicy& policy,
                              const Trigger& trigger) {
    if (trigger.published)
        return own_values(landscape, *std::ranges::find(policy.signals, trigger.signal, &OwnSignal::name));
    const std::string& signal = trigger.signal;
    std::vector<double> values;
    if (signal == "steps_since_refresh") {
        for (int64_t stride = 1; stride <= landscape.num_steps(); ++stride)
            values.push_back(static_cast<double>(stride));
        return values;
    }
    const size_t value = *landscape.value_index(is_kl(signal) ? "kl_nats" : signal);
    for (const int64_t j : landscape.rows()) {
        for (const float cell : landscape.plane(value, j)) {
            if (std::isfinite(cell)) values.push_back(static_cast<double>(cell));
        }
    }
    std::ranges::sort(values);
    return values;
}

/// Shares of the values that are tried: every other one of them nearer to the end that seldom fires.
double share_of(size_t i, size_t n) {
    const double x = static_cast<double>(i) / static_cast<double>(n - 1);
    return 1 - (1 - x) * (1 - x);
}

} // namespace

std::vector<FrontierPoint> threshold_frontier(const Landscape& landscape, const RefreshPolicy& policy,
                                              size_t trigger, size_t thresholds, Objective objective) {
    RL_ASSERT(trigger < policy.triggers.size() && thresholds >= 2);
    RefreshPolicy tried = policy;
    tried.triggers[trigger].enabled = true;
    static_cast<void>(walk_policy(landscape, tried)); // whether it has staircases at all
    const std::vector<double> values = values_of(landscape, tried, tried.triggers[trigger]);
    std::vector<FrontierPoint> points;
    if (values.empty()) return points;
    const Comparison comparison = tried.triggers[trigger].comparison;
    const bool low_fires = comparison == Comparison::below || comparison == Comparison::at_most;
    std::vector<int64_t> before;
    for (size_t i = 0; i < thresholds; ++i) {
        const double share = share_of(i, thresholds);
        const auto at = static_cast<size_t>(
            std::llround((low_fires ? 1 - share : share) * static_cast<double>(values.size() - 1)));
        tried.triggers[trigger].threshold = values[at];
        Staircase walk = walk_policy(landscape, tried, objective);
        if (!points.empty() && walk.refreshes == before) continue;
        points.push_back({values[at], static_cast<int64_t>(walk.refreshes.size()), walk.loss});
        before = std::move(walk.refreshes);
    }
    std::ranges::sort(points, {}, &FrontierPoint::threshold);
    return points;
}

std::vector<RefreshPolicy> frontier_policies(const Landscape& landscape) {
    std::vector<RefreshPolicy> policies{preset_policy("periodic")};
    for (const Signal& signal : signals()) {
        const std::string name(signal.name);
        if (signal.letter == 0 || name == "steps_since_refresh") continue;
        if (!landscape.value_index(is_kl(name) ? "kl_nats" : name)) continue;
        Trigger trigger;
        trigger.signal = name;
        trigger.comparison = fires_below(name) ? Comparison::below : Comparison::above;
        trigger.threshold = signal.default_threshold;
        trigger.every = is_probed(signal) ? probe_stride : 1;
        RefreshPolicy policy;
        policy.name = name;
        policy.triggers = {trigger};
        policies.push_back(std::move(policy));
    }
    return policies;
}

} // namespace refreshlab
