#include "engine/record/export/blocked_fires.h"

#include "engine/base/error.h"
#include "engine/control/command.h"
#include "engine/record/recording/recording.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

namespace refreshlab {

namespace {

/// The policy of a run at one boundary after the other.
class PolicyThen {
public:
    explicit PolicyThen(const Recording& recording)
        : m_recording(recording)
        , m_config(recording.info().config) {}

    /// \param step  never below that of the call before
    const RefreshPolicy& at(int64_t step) {
        const auto& commands = m_recording.commands();
        for (; m_next < commands.size() && commands[m_next].step <= step; ++m_next)
            apply(commands[m_next].json);
        return m_config.policy;
    }

private:
    void apply(const std::string& text) {
        const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
        if (json.is_discarded()) return;
        try {
            apply_to(m_config, command_from_json(json, "the recording's commands"));
        } catch (const Error&) { // a stranger's trace: the run cannot have obeyed it
        }
    }

    const Recording& m_recording;
    RunConfig m_config;
    size_t m_next = 0;
};

/// Walks over the boundaries of a recorded run with what the planner knew at each.
class Walk {
public:
    explicit Walk(const Recording& recording)
        : m_recording(recording)
        , m_policies(recording) {}

    std::vector<BlockedFire> run() {
        for (int64_t t = 1, n = m_recording.steps(); t <= n && m_recording.step(t).fed && !m_never_landed;
             ++t)
            look_at(t);
        return std::move(m_blocked);
    }

private:
    /// Its next token ended the run, so with `keep` a refresh could change nothing and none was planned.
    [[nodiscard]] bool is_last_choice(int64_t t) const {
        const auto end = m_recording.end();
        if (!end || end->stop_reason == "cancelled" || end->stop_reason == "context_limit") return false;
        return t == m_recording.steps() || !m_recording.step(t + 1).fed;
    }

    void look_at(int64_t t) {
        const auto& refreshes = m_recording.refreshes();
        // One that fired before lands at the beginning of its boundary.
        if (m_next < refreshes.size() && refreshes[m_next].step == t && refreshes[m_next].fired_step < t)
            land();
        const RefreshPolicy& policy = m_policies.at(t);
        const bool fired_here = m_next < refreshes.size() && refreshes[m_next].fired_step == t;
        const bool in_flight = m_next < refreshes.size() && refreshes[m_next].fired_step < t;
        if (!in_flight && !(policy.on_fire == OnFire::keep && is_last_choice(t)))
            ask(policy, t, fired_here && refreshes[m_next].automatic);
        if (!fired_here) return;
        if (refreshes[m_next].automatic) m_automatic.push_back(t);
        if (refreshes[m_next].step == t) land();
    }

    void land() {
        const RefreshEvent& event = m_recording.refreshes()[m_next++];
        m_last_splice = event.step;
        m_spliced_to = event.fired_step;
        m_last_pass = event.on_fire == OnFire::teacher_token ? event.step : event.fired_step;
    }

    void ask(const RefreshPolicy& policy, int64_t t, bool fired) {
        std::array<float, max_signals> known{};
        std::ranges::copy(m_recording.measured(t), known.begin());
        for (const size_t id : probed_signal_ids())
            known[id] = absent();
        LayerValues layers;
        for (const Trigger& trigger : policy.triggers) {
            const auto id = find_signal(m_recording.signals(), trigger.signal);
            if (id && trigger.reduce != Reduction::mean) layers.set(*id, m_recording.layer_values(t, *id));
        }
        const Boundary boundary{.step = t,
                                .tokens_since_splice = t - m_spliced_to,
                                .tokens_since_pass = t - m_last_pass,
                                .last_splice_step = m_last_splice,
                                .automatic_steps = m_automatic,
                                .signals = known,
                                .layers = &layers,
                                .table = m_recording.signals()};
        if (decide(policy, boundary).kind == Decision::Kind::probe) {
            for (const size_t id : probed_signal_ids()) {
                const float value = m_recording.signal(t, id);
                known[id] = is_absent(value) ? std::numeric_limits<float>::quiet_NaN() : value;
            }
            m_last_pass = t;
        }
        if (fired || policy.verify.target) return; // a threshold that moved is not in the policy
        const auto fires = [&](bool without_budget, bool without_cooldown) {
            RefreshPolicy freed = policy;
            if (without_budget) freed.budget.refreshes.reset();
            for (Trigger& trigger : freed.triggers)
                trigger.cooldown = without_cooldown ? 0 : trigger.cooldown;
            return decide(freed, boundary);
        };
        Decision free = fires(true, true);
        if (!free.automatic) return;
        const bool budget = !fires(false, true).automatic, cooldown = !fires(true, false).automatic;
        if (budget || cooldown) {
            m_blocked.push_back({t, budget, cooldown, std::move(free.hits)});
        } else { // nothing stood in the way: it fired, and the run ended before it landed
            m_never_landed = true;
        }
    }

    const Recording& m_recording;
    PolicyThen m_policies;
    size_t m_next = 0;                    ///< refresh that has not landed
    std::optional<int64_t> m_last_splice; ///< boundary
    int64_t m_spliced_to = 0, m_last_pass = 0;
    std::vector<int64_t> m_automatic;
    bool m_never_landed = false; ///< a lagged refresh is under way to the end of the run
    std::vector<BlockedFire> m_blocked;
};

} // namespace

std::vector<BlockedFire> blocked_fires(const Recording& recording) {
    if (recording.info().config.mode != Mode::overfill) return {};
    return Walk(recording).run();
}

} // namespace refreshlab
