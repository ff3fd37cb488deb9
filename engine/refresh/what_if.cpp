#include "engine/refresh/what_if.h"

#include "engine/signals/kl_mean.h"
#include "engine/signals/registry.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace refreshlab {

namespace {

/// Which signals the policy reads, looked up once.
struct Reads {
    struct Direct {
        const Trigger* trigger;
        std::optional<size_t> signal; ///< nothing: published, and not by this run, so never measured
    };
    std::vector<Direct> direct; ///< enabled; not what follows the predicted fires: KL, steps_since_refresh
    size_t kl = 0, kl_mean = 0;
    bool wants_mean = false;      ///< some enabled trigger reads kl_mean
    std::vector<size_t> probed{}; ///< others of probed_signal_ids() that some enabled trigger reads

    Reads(const RefreshPolicy& policy, std::span<const Signal> table) {
        const std::string where = "the threshold preview";
        kl = require_signal("kl_nats", where);
        kl_mean = require_signal("kl_mean_nats", where);
        const size_t steps = require_signal("steps_since_refresh", where);
        for (const Trigger& trigger : policy.triggers) {
            const std::optional<size_t> id = trigger.published
                                                 ? find_signal(table, trigger.signal)
                                                 : std::optional(require_signal(trigger.signal, where));
            if (!trigger.enabled) continue;
            wants_mean |= id == kl_mean;
            const bool is_probed =
                id && std::ranges::find(probed_signal_ids(), *id) != probed_signal_ids().end();
            if (is_probed && id != kl_mean) probed.push_back(*id);
            if (!is_probed && id != steps) direct.push_back({&trigger, id});
        }
    }
};

/// A trigger would look at its signal at this boundary, and there is no value. Of signals that need no probe.
bool misses_value(const Boundary& at, const Reads& reads) {
    for (const auto& [trigger, signal] : reads.direct) {
        if (at.step % std::max<int64_t>(1, trigger->every) != 0) continue;
        if (trigger->cooldown > 0 && at.last_splice_step &&
            at.step - *at.last_splice_step < trigger->cooldown)
            continue;
        if (!signal) return true;
        const float value = trigger->reduce == Reduction::mean
                                ? at.signals[*signal]
                                : reduce_layers(at.layers->find(*signal), trigger->reduce, trigger->layer);
        if (is_absent(value)) return true;
    }
    return false;
}

std::span<const Signal> table_of(const RecordedRun& run) {
    return run.table.empty() ? signals() : run.table;
}

std::optional<int64_t> first_difference(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
    const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    if (x == a.end() && y == b.end()) return std::nullopt;
    if (x == a.end()) return *y;
    if (y == b.end()) return *x;
    return std::min(*x, *y);
}

} // namespace

float recorded_value(const RecordedRun& run, const Trigger& trigger, size_t signal, int64_t step) {
    if (trigger.reduce == Reduction::mean) return run.signal(step, signal);
    return run.layer_values ? reduce_layers(run.layer_values(step, signal), trigger.reduce, trigger.layer)
                            : absent();
}

WhatIf what_if(const RefreshPolicy& policy, const RecordedRun& run) {
    const std::span<const Signal> table = table_of(run);
    const Reads reads(policy, table);
    WhatIf result;
    std::vector<float> values(table.size(), absent());
    LayerValues layers; ///< of the boundary, as far as some trigger reduces them
    std::optional<int64_t> last_splice;
    int64_t last_pass = 0,
            spliced_to = 0;          // tokens that the teacher has read, tokens that a splice has handled
    std::optional<int64_t> launched; // boundary of the lagged refresh under way
    bool asked = false;              // by hand, and still waiting
    double low_ms = 0, high_ms = 0;  // of the policy: its refreshes, and probes that did not fire
    auto manual = run.manual_fires.begin();

    for (int64_t t = 1; t <= run.steps; ++t) {
        for (const auto& [trigger, signal] : reads.direct) {
            if (!signal) continue;
            values[*signal] = run.signal(t, *signal);
            if (trigger->reduce != Reduction::mean && run.layer_values)
                layers.set(*signal, run.layer_values(t, *signal));
        }
        for (const size_t id : probed_signal_ids())
            values[id] = absent();
        while (manual != run.manual_fires.end() && *manual < t)
            ++manual;
        if (manual != run.manual_fires.end() && *manual == t) asked = true;
        if (launched && t - *launched >= policy.lag) {
            spliced_to = *std::exchange(launched, std::nullopt);
            last_splice = t;
        }
        const Boundary boundary = {.step = t,
                                   .tokens_since_splice = t - spliced_to,
                                   .tokens_since_pass = t - last_pass,
                                   .last_splice_step = last_splice,
                                   .automatic_steps = result.fires,
                                   .signals = values,
                                   .manual = asked,
                                   .in_flight = launched.has_value(),
                                   .layers = &layers,
                                   .table = table};
        asked = asked && launched.has_value();
        bool missing = !launched && misses_value(boundary, reads);
        Decision decision = decide(policy, boundary);
        bool passed = false;
        const int64_t pass_before = last_pass;
        if (decision.kind == Decision::Kind::probe) {
            const float unknown = std::numeric_limits<float>::quiet_NaN(),
                        mean = reads.wants_mean
                                   ? mean_kl(spliced_to + 1, t,
                                             [&](int64_t step) { return run.signal(step, reads.kl); })
                                   : absent();
            missing = missing || (reads.wants_mean && is_absent(mean));
            // That of the KL tells the planner that the probe was made.
            values[reads.kl] = unknown;
            values[reads.kl_mean] = is_absent(mean) ? unknown : mean;
            for (const size_t id : reads.probed) {
                const float value = run.signal(t, id);
                missing = missing || is_absent(value);
                values[id] = is_absent(value) ? unknown : value;
            }
            decision = decide(policy, boundary); // sees the new value: the span is of `values`
            last_pass = t;
            passed = true;
        }
        if (decision.kind == Decision::Kind::refresh) {
            last_pass = t;
            if (policy.lag > 0) {
                launched = t;
            } else {
                last_splice = spliced_to = t;
            }
            if (decision.automatic) result.fires.push_back(t);
            passed = decision.automatic || passed;
        }
        if (passed) {
            // What the pass read, against what a recorded one reads.
            const double share =
                run.refresh_tokens > 0 ? static_cast<double>(t - pass_before) / run.refresh_tokens : 1;
            low_ms += run.refresh_ms * std::min(1.0, share);
            high_ms += run.refresh_ms * std::max(1.0, share);
        }
        result.missing += missing ? 1 : 0;
    }

    result.exact_until = first_difference(result.fires, run.automatic_fires);
    if (run.refresh_ms > 0 && run.decode_ms > 0)
        result.overhead = {100.0 * low_ms / run.decode_ms, 100.0 * high_ms / run.decode_ms};
    return result;
}

} // namespace refreshlab
