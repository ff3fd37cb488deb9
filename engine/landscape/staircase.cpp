#include "engine/landscape/staircase.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/landscape/cell_signals.h"
#include "engine/refresh/planner.h"
#include "engine/signals/kl_mean.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>

namespace refreshlab {

namespace {

/// A staircase while it grows.
class Steps {
public:
    Steps(const Landscape& landscape, Objective objective)
        : m_landscape(landscape)
        , m_costs(landscape, objective) {
        m_stairs.rows.reserve(static_cast<size_t>(landscape.num_steps()));
    }
    [[nodiscard]] int64_t row() const { return m_row; }

    void step(int64_t t) {
        m_stairs.rows.push_back(m_row);
        m_sum += m_costs.next(t);
    }
    void refresh(int64_t boundary) {
        m_stairs.refreshes.push_back(boundary);
        if (!m_landscape.has_row(boundary) && !m_stairs.exact_until) m_stairs.exact_until = boundary;
        m_row = m_landscape.row_at_or_below(boundary);
        m_costs.enter(m_row);
    }
    void probe(int64_t boundary) { m_stairs.probes.push_back(boundary); }
    Staircase finish() {
        m_stairs.loss = m_sum / static_cast<double>(m_landscape.num_steps());
        return std::move(m_stairs);
    }

private:
    const Landscape& m_landscape;
    CellCosts m_costs;
    Staircase m_stairs;
    int64_t m_row = 0;
    double m_sum = 0;
};

bool is_kl(const Trigger& trigger) {
    return trigger.signal == "kl_nats" || trigger.signal == "kl_mean_nats";
}

/// The policy's own signal that a trigger compares; null where it compares another.
const OwnSignal* own_of(const RefreshPolicy& policy, const Trigger& trigger) {
    if (!trigger.published) return nullptr;
    const auto own = std::ranges::find(policy.signals, trigger.signal, &OwnSignal::name);
    return own == policy.signals.end() ? nullptr : &*own;
}

/// What the teacher's passes have made known along one staircase.
class KnownKl {
public:
    KnownKl(const Landscape& landscape, std::optional<size_t> value)
        : m_landscape(landscape)
        , m_value(value)
        , m_kl(static_cast<size_t>(landscape.num_steps()) + 1, absent()) {}

    /// The teacher reads up to step `t`; steps since the last refresh, which was at boundary `splice`, stand in `row`.
    void read(int64_t t, int64_t row) {
        const int64_t oldest = t - m_landscape.info().kept_rows + 1; // whose row a session still has
        for (int64_t step = std::max(m_read + 1, oldest); m_value && step <= t; ++step) {
            if (step > row) m_kl[static_cast<size_t>(step)] = m_landscape.cell(*m_value, row, step);
        }
        m_read = t;
    }
    [[nodiscard]] float at(int64_t t) const { return m_kl[static_cast<size_t>(t)]; }
    [[nodiscard]] float mean(int64_t splice, int64_t t) const {
        return mean_kl(splice + 1, t, [this](int64_t step) { return at(step); });
    }

private:
    const Landscape& m_landscape;
    std::optional<size_t> m_value;
    std::vector<float> m_kl; ///< by step
    int64_t m_read = 0;
};

} // namespace

Staircase walk_schedule(const Landscape& landscape, std::span<const int64_t> refreshes, Objective objective) {
    Steps steps(landscape, objective);
    auto next = refreshes.begin();
    for (int64_t t = 1; t <= landscape.num_steps(); ++t) {
        steps.step(t);
        if (next == refreshes.end() || *next != t) continue;
        RL_ASSERT(t < landscape.num_steps());
        steps.refresh(t);
        ++next;
    }
    RL_ASSERT(next == refreshes.end()); // ascending, inside the text
    return steps.finish();
}

std::string why_no_staircase(std::span<const std::string> values, const RefreshPolicy& policy) {
    if (policy.window) {
        return "its refreshes are windowed: a refresh with a window leaves older columns as they are, so "
               "what follows depends on more than the last refresh";
    }
    if (!policy.scope.whole()) {
        return fmt::format(
            "its refreshes have a scope ({}): what they leave is what the student wrote under earlier "
            "refreshes, so what follows depends on more than the last refresh",
            scope_text(policy.scope));
    }
    if (policy.lag > 0)
        return "its refreshes lag: columns written meanwhile stay, so what follows depends on more than the "
               "last refresh";
    if (const std::string why = why_no_drafts(values, policy); !why.empty()) return why;
    if (policy.on_fire != OnFire::keep && policy.on_fire != OnFire::verify) {
        return fmt::format("its on_fire is {}: on a given text there is nothing to draw again (set it to "
                           "keep)",
                           to_string(policy.on_fire));
    }
    const auto lacks = [&](std::string_view name) { return !tells(values, name); };
    for (const Trigger& trigger : policy.triggers) {
        if (!trigger.enabled || trigger.signal == "steps_since_refresh") continue;
        if (const OwnSignal* own = own_of(policy, trigger)) {
            for (const std::string_view name : own->reads()) {
                if (lacks(name))
                    return fmt::format(
                        "its signal {} reads {}, which this landscape does not hold (compute it "
                        "with that value)",
                        own->name, cell_source(name));
            }
            continue;
        }
        if (lacks(trigger.signal)) {
            const std::string why = trigger.published ? "a component of a run publishes it"
                                                      : why_no_landscape_value(cell_source(trigger.signal));
            return fmt::format("its trigger reads {}, which this landscape does not hold ({})",
                               trigger.signal, why.empty() ? "compute it with that value" : why);
        }
        if (trigger.reduce != Reduction::mean) {
            return fmt::format("its trigger reads {}, and a landscape keeps the mean over the layers alone",
                               reduced_name(trigger.signal, trigger.reduce, trigger.layer));
        }
    }
    return {};
}

Staircase walk_policy(const Landscape& landscape, const RefreshPolicy& policy, Objective objective) {
    if (const std::string why = why_no_staircase(landscape, policy); !why.empty())
        throw Error("walking a policy through a landscape", policy.name, why);
    struct Read {
        size_t signal, value;
    };
    std::vector<Read> reads;  // what enabled triggers compare and the row tells by itself
    std::vector<Read> probed; // and what the teacher's row tells beside it: known at a probe
    std::vector<PublishedSignal> published;
    for (size_t i = 0; i < policy.signals.size(); ++i)
        published.push_back(published_form(policy.signals[i], i));
    const std::vector<Signal> table = signal_table(published);
    for (const Trigger& trigger : policy.triggers) {
        if (!trigger.enabled || is_kl(trigger) || trigger.signal == "steps_since_refresh") continue;
        if (trigger.published) continue; // weighed below
        const bool free =
            signals()[require_signal(trigger.signal, "a landscape")].cost != SignalCost::teacher_pass;
        (free ? reads : probed)
            .push_back(
                {require_signal(trigger.signal, "a landscape"), *landscape.value_index(trigger.signal)});
    }
    const size_t kl_id = require_signal("kl_nats", "a landscape"),
                 mean_id = require_signal("kl_mean_nats", "a landscape");

    std::vector<float> values(table.size(), absent());
    KnownKl kl(landscape, landscape.value_index("kl_nats"));
    Steps steps(landscape, objective);
    std::vector<int64_t> fired;
    std::optional<int64_t> last_splice;
    int64_t last_pass = 0;
    float last_kl = absent(), last_drift = absent();
    const bool verifies = policy.on_fire == OnFire::verify;
    const bool knows_drift = landscape.value_index("drift").has_value();
    std::map<std::string, std::vector<float>, std::less<>> past; // by step, of what own signals look back at
    for (const OwnSignal& own : policy.signals)
        if (own.reach() > 0)
            for (const std::string_view name : own.reads())
                past.try_emplace(std::string(name));
    for (int64_t t = 1; t <= landscape.num_steps(); ++t) {
        const auto read_now = [&](std::string_view name) {
            if (name == "steps_since_refresh") return static_cast<float>(t - last_splice.value_or(0));
            if (name == "last_kl_nats") return last_kl;
            if (name == "last_drift") return last_drift;
            const auto value = landscape.value_index(name);
            return value ? landscape.cell(*value, steps.row(), t) : absent();
        };
        steps.step(t);
        if (t == landscape.num_steps()) break; // after the last choice a refresh could change nothing
        for (const Read& read : reads)
            values[read.signal] = landscape.cell(read.value, steps.row(), t);
        for (size_t i = 0; i < policy.signals.size(); ++i) {
            values[published_id(i)] =
                own_value(policy.signals[i], t, [&](std::string_view name, int64_t step) {
                    return step == t ? read_now(name)
                                     : past.find(name)->second[static_cast<size_t>(step - 1)];
                });
        }
        for (auto& [name, read] : past)
            read.push_back(read_now(name));
        values[kl_id] = values[mean_id] = absent();
        for (const Read& read : probed)
            values[read.signal] = absent();
        const Boundary boundary = {.step = t,
                                   .tokens_since_splice = t - last_splice.value_or(0),
                                   .tokens_since_pass = t - last_pass,
                                   .last_splice_step = last_splice,
                                   .automatic_steps = fired,
                                   .signals = values,
                                   .table = table};
        const bool draft_ends = verifies && t - last_splice.value_or(0) >= longest_draft;
        Decision decision = decide(policy, boundary);
        if (decision.kind == Decision::Kind::probe) {
            kl.read(t, steps.row());
            values[kl_id] = kl.at(t);
            values[mean_id] = kl.mean(last_splice.value_or(0), t);
            for (const Read& read : probed)
                values[read.signal] = landscape.cell(read.value, steps.row(), t);
            decision = decide(policy, boundary); // sees the new values: the span is of `values`
            last_pass = t;
            if (!is_absent(kl.at(t))) last_kl = kl.at(t);
            if (decision.kind != Decision::Kind::refresh && !draft_ends) steps.probe(t);
        }
        const bool fires = decision.kind == Decision::Kind::refresh;
        if (!fires && !draft_ends) continue;
        kl.read(t, steps.row());
        last_pass = t;
        if (!is_absent(kl.at(t))) last_kl = kl.at(t);
        if (knows_drift) last_drift = delta_drift(landscape, steps.row(), last_splice.value_or(0) + 1, t);
        last_splice = t;
        if (fires) fired.push_back(t); // a budget counts the policy's own
        steps.refresh(t);
    }
    Staircase stairs = steps.finish();
    if (verifies) stairs.drafts = expected_drafts(landscape, stairs.refreshes, stairs.rows);
    return stairs;
}

double row_cost(const Landscape& landscape, int64_t a, int64_t b) {
    double sum = 0;
    for (int64_t step = a + 1; step <= b; ++step)
        sum += landscape.loss(a, step);
    return sum;
}

double refresh_gain(const Landscape& landscape, int64_t j, int64_t i, std::optional<int64_t> horizon,
                    Objective objective) {
    RL_ASSERT(j < i);
    CellCosts stays(landscape, objective), refreshed(landscape, objective);
    stays.enter(j, i);
    refreshed.enter(i);
    const int64_t end = horizon ? std::min(landscape.num_steps(), i + *horizon) : landscape.num_steps();
    double gain = 0;
    for (int64_t step = i + 1; step <= end; ++step)
        gain += stays.next(step) - refreshed.next(step);
    return gain;
}

} // namespace refreshlab
