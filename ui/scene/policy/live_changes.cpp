#include "ui/scene/policy/live_changes.h"

#include "engine/control/cache_choice.h"
#include "engine/policies/cache_gate.h"
#include "engine/record/recording/logged_config.h"
#include "ui/scene/policy/command_words.h"

#include <algorithm>
#include <optional>
#include <variant>

namespace refreshlab::ui {
namespace {

/// A look at attention changes nothing, and a refresh by hand is a refresh's mark.
bool is_change(const std::optional<Command>& command) {
    return !command || !(std::holds_alternative<command::RequestAttention>(*command) ||
                         std::holds_alternative<command::RefreshNow>(*command));
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
    ++m_generation;
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
        obey(m_config, log[m_commands]);
        if (!is_change(logged_command(log[m_commands])))
            continue; // one that is not known has its words all the same
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

std::optional<double> value_at(const LiveChanges& changes, int64_t t, std::string_view signal,
                               LayerPick layers) {
    const auto value = threshold_of(changes.policy_at(t), signal, layers);
    return value ? value : gate_of(changes.cache_at(t), signal, layers);
}

} // namespace

std::span<const ThresholdSpan> ThresholdStair::of(const LiveChanges& changes, int64_t steps,
                                                  std::string_view signal, LayerPick layers) {
    if (m_generation != changes.generation() || m_signal != signal || m_layers != layers || steps < m_steps) {
        *this = {};
        m_generation = changes.generation();
        m_signal = signal;
        m_layers = layers;
    }
    m_steps = steps;
    // What the last call added behind the settled spans is taken back.
    m_spans.resize(m_settled);
    if (m_settled > 0) m_spans.back().last = m_last;
    const auto all = changes.all();
    for (; m_changes < all.size() && all[m_changes].step <= steps; ++m_changes)
        stand(changes, all[m_changes].step - 1);
    m_settled = m_spans.size();
    m_last = m_settled > 0 ? m_spans.back().last : 0;
    const int64_t first = m_first;
    stand(changes, steps); // later changes are of steps that are not there yet
    m_first = first;
    return m_spans;
}

void ThresholdStair::stand(const LiveChanges& changes, int64_t last) {
    if (last < m_first) return;
    if (const auto value = value_at(changes, m_first, m_signal, m_layers)) {
        if (!m_spans.empty() && m_spans.back().value == *value && m_spans.back().last + 1 == m_first)
            m_spans.back().last = last;
        else
            m_spans.push_back({m_first, last, *value});
    }
    m_first = last + 1;
}

std::vector<ThresholdSpan> threshold_stair(const LiveChanges& changes, int64_t steps, std::string_view signal,
                                           LayerPick layers) {
    ThresholdStair stair;
    const auto spans = stair.of(changes, steps, signal, layers);
    return {spans.begin(), spans.end()};
}

bool moved_since_run(const LiveChanges& changes, int64_t steps, std::string_view signal, LayerPick layers,
                     double now) {
    return steps < 1 || value_at(changes, steps, signal, layers) != now;
}

} // namespace refreshlab::ui
