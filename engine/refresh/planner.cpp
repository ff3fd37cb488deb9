#include "engine/refresh/planner.h"

#include "engine/signals/registry.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace refreshlab {

namespace {

bool compare(double value, Comparison comparison, double threshold) {
    switch (comparison) {
    case Comparison::above:
        return value > threshold;
    case Comparison::at_least:
        return value >= threshold;
    case Comparison::below:
        return value < threshold;
    case Comparison::at_most:
        return value <= threshold;
    }
    return false;
}

constexpr std::array<std::string_view, 5> probed = {"kl_nats", "kl_mean_nats", "acceptance", "same_top1",
                                                    "teacher_rank"};

/// Its signal is known after a teacher pass only. By name: the preview asks at every boundary of a run within a frame.
bool is_probe(const Trigger& trigger) {
    return std::ranges::find(probed, trigger.signal) != probed.end();
}

std::span<const Signal> table_of(const Boundary& boundary) {
    return boundary.table.empty() ? signals() : boundary.table;
}

/// Value at this boundary; absent() where nothing was measured.
double value_at(const Trigger& trigger, const Boundary& boundary) {
    if (trigger.signal == "steps_since_refresh") return static_cast<double>(boundary.tokens_since_splice);
    const std::optional<size_t> id = find_signal(table_of(boundary), trigger.signal);
    if (!id || *id >= boundary.signals.size()) return std::numeric_limits<double>::quiet_NaN();
    if (trigger.reduce == Reduction::mean) return static_cast<double>(boundary.signals[*id]);
    const auto values = boundary.layers != nullptr ? boundary.layers->find(*id) : std::span<const float>();
    return static_cast<double>(reduce_layers(values, trigger.reduce, trigger.layer));
}

bool on_stride(const Trigger& trigger, const Boundary& boundary) {
    const int64_t every = std::max<int64_t>(1, trigger.every);
    return is_probe(trigger) ? boundary.tokens_since_pass >= every : boundary.step % every == 0;
}

bool cooled_down(const Trigger& trigger, const Boundary& boundary) {
    return trigger.cooldown <= 0 || !boundary.last_splice_step ||
           boundary.step - *boundary.last_splice_step >= trigger.cooldown;
}

/// Eligible and beyond its threshold. NaN (absent too) and infinity never are.
bool holds(const Trigger& trigger, const Boundary& boundary) {
    if (!on_stride(trigger, boundary) || !cooled_down(trigger, boundary)) return false;
    const double value = value_at(trigger, boundary);
    return std::isfinite(value) && compare(value, trigger.comparison, trigger.threshold);
}

bool budget_left(const Budget& budget, const Boundary& boundary) {
    if (!budget.refreshes) return true;
    const auto& steps = boundary.automatic_steps;
    const auto first = std::upper_bound(steps.begin(), steps.end(), boundary.step - budget.per_tokens);
    const auto last = std::upper_bound(first, steps.end(), boundary.step);
    return last - first < *budget.refreshes;
}

/// A teacher pass is due and its KL is not known yet.
bool wants_probe(const RefreshPolicy& policy, const Boundary& boundary) {
    const bool due = std::ranges::any_of(policy.triggers, [&](const Trigger& t) {
        return t.enabled && is_probe(t) && on_stride(t, boundary);
    });
    if (!due) return false;
    const std::optional<size_t> id = signal_id("kl_nats");
    if (*id < boundary.signals.size() && !is_absent(boundary.signals[*id])) return false;
    if (policy.combine == Combine::any) return true;
    return std::ranges::all_of(policy.triggers, [&](const Trigger& t) {
        return !t.enabled || (is_probe(t) ? on_stride(t, boundary) : holds(t, boundary));
    });
}

char letter_of(const Trigger& trigger, std::span<const Signal> table) {
    const std::optional<size_t> id = find_signal(table, trigger.signal);
    return id ? table[*id].letter : char{0};
}

/// An enabled trigger looks at such a signal of the registry at this step.
template <class Such>
bool reads(const RefreshPolicy& policy, int64_t step, Such such) {
    return std::ranges::any_of(policy.triggers, [&](const Trigger& trigger) {
        if (!trigger.enabled) return false;
        if (step % std::max<int64_t>(1, trigger.every) != 0) return false;
        const auto wanted = [&](std::string_view name) {
            const std::optional<size_t> id = signal_id(name);
            return id && such(signals()[*id]);
        };
        if (!trigger.published) return wanted(trigger.signal);
        const auto own = std::ranges::find(policy.signals, trigger.signal, &OwnSignal::name);
        return own != policy.signals.end() && std::ranges::any_of(own->reads(), wanted);
    });
}

} // namespace

std::span<const std::string_view> probed_signals() {
    return probed;
}

std::span<const size_t> probed_signal_ids() {
    static const auto ids = [] {
        std::array<size_t, probed.size()> found{};
        for (size_t i = 0; i < probed.size(); ++i)
            found[i] = require_signal(probed[i], "the planner");
        return found;
    }();
    return ids;
}

Decision decide(const RefreshPolicy& policy, const Boundary& boundary) {
    Decision decision;
    if (boundary.in_flight) return decision;
    if (boundary.tokens_since_splice <= 0) return decision; // an empty range is no refresh, by hand neither
    if (wants_probe(policy, boundary)) {
        decision.kind = Decision::Kind::probe;
        return decision;
    }

    if (boundary.manual) decision.hits.push_back(TriggerHit{});
    const bool scheduled = std::ranges::binary_search(policy.at, boundary.step);
    if (scheduled) {
        const auto step = static_cast<double>(boundary.step);
        decision.hits.push_back(
            {.signal = std::string(scheduled_hit), .value = step, .threshold = step, .letter = '@'});
    }
    size_t enabled = 0, held = 0;
    for (size_t i = 0; i < policy.triggers.size(); ++i) {
        const Trigger& trigger = policy.triggers[i];
        if (!trigger.enabled) continue;
        ++enabled;
        if (!holds(trigger, boundary)) continue;
        ++held;
        decision.hits.push_back({.trigger = static_cast<int32_t>(i),
                                 .signal = trigger.signal,
                                 .value = value_at(trigger, boundary),
                                 .threshold = trigger.threshold,
                                 .letter = letter_of(trigger, table_of(boundary)),
                                 .reduce = trigger.reduce,
                                 .layer = trigger.layer});
    }
    const bool fires = scheduled || (held > 0 && (policy.combine == Combine::any || held == enabled));
    decision.automatic = fires && budget_left(policy.budget, boundary);
    decision.budget_blocked = fires && !decision.automatic;
    if (decision.automatic || boundary.manual) {
        decision.kind = Decision::Kind::refresh;
    } else if (!decision.budget_blocked) {
        decision.hits.clear(); // `all`, and not all of them hold
    }
    return decision;
}

bool wants_mc(const RefreshPolicy& policy, int64_t step) {
    return reads(policy, step, [](const Signal& signal) { return signal.cost == SignalCost::mc_rows; });
}

bool wants_attention(const RefreshPolicy& policy, int64_t step) {
    return reads(policy, step, [](const Signal& signal) { return signal.attention; });
}

std::string_view reason_word(std::string_view signal) {
    if (signal.empty()) return "manual";
    if (signal == "entropy_bits") return "entropy";
    if (signal == "kl_nats") return "kl";
    if (signal == "kl_mean_nats") return "kl_mean";
    if (signal == "mc_variance") return "mc";
    if (signal == "steps_since_refresh") return "periodic";
    if (signal == scheduled_hit) return "scheduled";
    return signal;
}

std::string reason_text(std::span<const TriggerHit> hits) {
    std::string text;
    for (const TriggerHit& hit : hits) {
        if (!text.empty()) text += '+';
        text += reduced_name(reason_word(hit.signal), hit.reduce, hit.layer);
    }
    return text;
}

char reason_letter(std::span<const TriggerHit> hits) {
    if (hits.empty()) return 0;
    return hits.size() > 1 ? '+' : hits.front().letter;
}

} // namespace refreshlab
