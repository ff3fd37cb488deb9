#include "ui/scene/policy/thresholds.h"

#include "engine/control/cache_choice.h"
#include "engine/policies/cache_gate.h"
#include "engine/signals/registry.h"
#include "ui/base/value_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace refreshlab::ui {

std::string_view threshold_parameter(std::string_view signal) {
    for (const Parameter& p : parameters()) {
        // The threshold of the periodic trigger goes by another name.
        if (p.signal == signal && (p.key.ends_with(".threshold") || p.key == "periodic.every")) return p.key;
    }
    return {};
}

namespace {

/// The line of the cache policy that decides by this signal, if it is one.
std::optional<ThresholdLine> cache_line(const Drafts& drafts, std::string_view signal) {
    const CachePolicyConfig& cache = deciding_cache(drafts.config());
    const CacheGate* gate = find_cache_gate(cache.policy);
    if (gate == nullptr || gate->signal != signal) return std::nullopt;
    ThresholdLine line;
    line.trigger = ThresholdLine::of_cache;
    line.key = fmt::format("{}_cache.{}", drafts.config().mode == Mode::teacher ? "teacher" : "student",
                           gate->parameter);
    line.value = drafts.number(line.key).value_or(0);
    line.comparison = gate->comparison;
    line.pending = drafts.pending(line.key);
    for (const CacheParameter& parameter : find_cache_method(cache.policy)->parameters)
        if (parameter.key == gate->parameter) line.fallback = parameter.fallback;
    return line;
}

} // namespace

std::vector<ThresholdLine> threshold_lines(const Drafts& drafts, std::string_view signal) {
    std::vector<ThresholdLine> lines;
    const RefreshPolicy policy = drafts.policy();
    for (size_t i = 0; i < policy.triggers.size(); ++i) {
        const Trigger& trigger = policy.triggers[i];
        if (trigger.signal != signal) continue;
        ThresholdLine line;
        line.trigger = i;
        // The parameter speaks about the first trigger of its signal.
        line.key = threshold_parameter(signal);
        if (!lines.empty() || line.key.empty() || !drafts.number(line.key))
            line.key = trigger_key(i, TriggerField::threshold);
        line.value = drafts.number(line.key).value_or(trigger.threshold);
        line.comparison = trigger.comparison;
        line.enabled = trigger.enabled;
        line.pending = drafts.pending(line.key);
        line.layers = {.reduction = trigger.reduce, .layer = trigger.layer};
        lines.push_back(std::move(line));
    }
    if (auto line = cache_line(drafts, signal)) lines.push_back(std::move(*line));
    return lines;
}

std::vector<ThresholdLine> lines_of_pick(std::vector<ThresholdLine> lines, const LayerPick& pick) {
    std::erase_if(lines, [&](const ThresholdLine& line) {
        return line.trigger == ThresholdLine::of_cache ? pick.strip : line.layers != pick;
    });
    return lines;
}

DragLimits drag_limits(const ThresholdLine& line, const Signal& signal) {
    if (const Parameter* p = find_parameter(line.key)) return {p->min, p->max};
    constexpr double open = std::numeric_limits<double>::max();
    // A signal whose usual range begins at zero is never negative; a threshold below zero would only mean "always".
    return {signal.min >= 0 ? 0.0 : -open, open};
}

double dragged_value(const ValueAxis& axis, double wanted, double pixels, DragLimits limits, bool whole) {
    const double low = std::max(limits.min, axis.min), high = std::min(limits.max, axis.max);
    if (!(low <= high)) return std::clamp(wanted, limits.min, limits.max);
    const double place = std::clamp(wanted, low, high);
    double quantum = drag_quantum(axis.per_pixel(place, pixels) * pixels, pixels);
    if (whole) quantum = std::max(1.0, quantum);
    const double value = std::clamp(round_to(place, quantum), limits.min, limits.max);
    return axis.has_place(value) ? value : place; // rounded to 0 where log has none
}

Trigger default_trigger(const Signal& signal, const LayerPick& pick) {
    Trigger trigger;
    trigger.signal = signal.name;
    trigger.threshold = signal.default_threshold;
    // MC rows and teacher passes cost; every 16 tokens is the default of the presets that use them.
    trigger.every = signal.cost == SignalCost::free ? 1 : 16;
    trigger.cooldown = 32;
    trigger.reduce = pick.reduction;
    trigger.layer = pick.layer;
    return trigger;
}

} // namespace refreshlab::ui
