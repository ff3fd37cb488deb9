#include "ui/plot/thresholds.h"

#include "engine/signals/registry.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>

namespace refreshlab::ui {

std::string_view parameter_alias(std::string_view signal) {
    // The short names of engine/control/parameters.h.
    constexpr std::array<std::pair<std::string_view, std::string_view>, 3> aliases = {
        {{"entropy_bits", "entropy"}, {"kl_nats", "kl"}, {"mc_variance", "mc"}}};
    for (const auto& [name, alias] : aliases)
        if (name == signal) return alias;
    return signal;
}

std::vector<ThresholdLine> threshold_lines(const Drafts& drafts, std::string_view signal) {
    std::vector<ThresholdLine> lines;
    const RefreshPolicy policy = drafts.policy();
    for (size_t i = 0; i < policy.triggers.size(); ++i) {
        const Trigger& trigger = policy.triggers[i];
        if (trigger.signal != signal) continue;
        ThresholdLine line;
        line.trigger = i;
        // The parameter speaks about the first trigger of its signal.
        line.key = fmt::format("{}.threshold", parameter_alias(signal));
        if (!lines.empty() || !drafts.number(line.key)) line.key = trigger_key(i, "threshold");
        line.value = drafts.number(line.key).value_or(trigger.threshold);
        line.comparison = trigger.comparison;
        line.enabled = trigger.enabled;
        line.pending = drafts.pending(line.key);
        lines.push_back(std::move(line));
    }
    return lines;
}

DragLimits drag_limits(const ThresholdLine& line, std::string_view signal) {
    if (const Parameter* p = find_parameter(line.key)) return {p->min, p->max};
    constexpr double open = std::numeric_limits<double>::max();
    const auto id = signal_id(signal);
    // A signal whose usual range begins at zero is never negative; a threshold below zero would only mean "always".
    return {id && signals()[*id].min >= 0 ? 0.0 : -open, open};
}

Trigger default_trigger(std::string_view signal) {
    Trigger trigger;
    trigger.signal = signal;
    if (const auto id = signal_id(signal)) {
        const Signal& s = signals()[*id];
        trigger.threshold = s.default_threshold;
        // MC rows and teacher passes cost; every 16 tokens is the default of the presets that use them.
        trigger.every = s.cost == SignalCost::free ? 1 : 16;
        trigger.cooldown = 32;
    }
    return trigger;
}

} // namespace refreshlab::ui
