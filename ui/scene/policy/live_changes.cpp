#include "ui/scene/policy/live_changes.h"

#include "engine/base/error.h"
#include "engine/control/cache_choice.h"
#include "engine/policies/cache_gate.h"
#include "ui/scene/policy/command_words.h"

#include <algorithm>
#include <optional>

namespace refreshlab::ui {
namespace {

void apply(RunConfig& config, const CommandEvent& event) {
    try {
        if (const auto command = logged_command(event)) apply_to(config, *command);
    } catch (const Error&) {
        // A value that this version refuses: what it changed is not known here, and its words are shown all the same.
    }
}

std::optional<double> threshold_of(const RefreshPolicy& policy, std::string_view signal, LayerPick layers) {
    for (const Trigger& trigger : policy.triggers) {
        const LayerPick compared{.reduction = trigger.reduce, .layer = trigger.layer};
        if (trigger.signal == signal && compared == layers)
            return trigger.enabled ? std::optional(trigger.threshold) : std::nullopt;
    }
    return std::nullopt;
}

} // namespace

void LiveChanges::clear() {
    m_recording = nullptr;
    m_commands = 0;
    m_changes.clear();
}

void LiveChanges::update(const Recording& recording) {
    if (m_recording != &recording) {
        clear();
        m_recording = &recording;
        m_config = recording.info().config;
        m_first = m_config.policy;
        m_first_cache = deciding_cache(m_config);
    }
    const auto& log = recording.commands();
    for (const size_t n = log.size(); m_commands < n; ++m_commands) {
        apply(m_config, log[m_commands]);
        m_changes.push_back({log[m_commands].step, command_words(log[m_commands]), m_config.policy,
                             deciding_cache(m_config)});
    }
}

const RefreshPolicy& LiveChanges::policy_at(int64_t t) const {
    const auto after = std::ranges::upper_bound(m_changes, t, {}, &Change::step);
    return after == m_changes.begin() ? m_first : std::prev(after)->policy;
}

const CachePolicyConfig& LiveChanges::cache_at(int64_t t) const {
    const auto after = std::ranges::upper_bound(m_changes, t, {}, &Change::step);
    return after == m_changes.begin() ? m_first_cache : std::prev(after)->cache;
}

namespace {

/// The threshold of a cache policy that decides by this signal, in every layer.
std::optional<double> gate_of(const CachePolicyConfig& cache, std::string_view signal, LayerPick layers) {
    const CacheGate* gate = find_cache_gate(cache.policy);
    if (gate == nullptr || gate->signal != signal || layers.strip) return std::nullopt;
    const auto value = cache.values.find(gate->parameter);
    return value == cache.values.end() ? std::nullopt : std::optional(value->second);
}

} // namespace

std::vector<ThresholdSpan> threshold_stair(const LiveChanges& changes, int64_t steps, std::string_view signal,
                                           LayerPick layers) {
    std::vector<ThresholdSpan> stair;
    const auto all = changes.all();
    int64_t first = 1;
    const auto stand = [&](int64_t last) { // what was in force at [first, last]
        last = std::min(last, steps);
        if (last < first) return;
        auto value = threshold_of(changes.policy_at(first), signal, layers);
        if (!value) value = gate_of(changes.cache_at(first), signal, layers);
        if (value) {
            if (!stair.empty() && stair.back().value == *value && stair.back().last + 1 == first)
                stair.back().last = last;
            else
                stair.push_back({first, last, *value});
        }
        first = last + 1;
    };
    for (const LiveChanges::Change& change : all)
        stand(change.step - 1);
    stand(steps);
    return stair;
}

bool moved_since_run(const LiveChanges& changes, int64_t steps, std::string_view signal, LayerPick layers,
                     double now) {
    const auto stair = threshold_stair(changes, steps, signal, layers);
    return stair.empty() || stair.back().last < steps || stair.back().value != now;
}

} // namespace refreshlab::ui
