#include "engine/record/export/blocked_fires.h"

#include "engine/record/recording/logged_config.h"
#include "engine/record/recording/recording.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace refreshlab {

namespace {

/// Its next token ended the run, so with `keep` a refresh could change nothing and none was planned.
bool is_last_choice(const Recording& recording, int64_t t) {
    const auto end = recording.end();
    if (!end || end->stop_reason == "cancelled" || end->stop_reason == "context_limit") return false;
    return t == recording.steps() || !recording.step(t + 1).fed;
}

} // namespace

BlockedFires::Freed::Freed(const RefreshPolicy& policy)
    : no_budget(policy) {
    no_budget.budget.refreshes.reset();
    const auto without_cooldown = [](RefreshPolicy of) {
        for (Trigger& trigger : of.triggers)
            trigger.cooldown = 0;
        return of;
    };
    no_cooldown = without_cooldown(policy);
    free = without_cooldown(no_budget);
}

void BlockedFires::clear() {
    *this = {};
}

void BlockedFires::update(const Recording& recording) {
    if (m_recording != &recording) {
        clear();
        m_recording = &recording;
        m_config = recording.info().config;
    }
    if (m_config.mode != Mode::overfill) return;
    for (;; ++m_next_step) {
        // The end is asked first: steps that come after the answer are another call's.
        const bool ended = recording.end().has_value();
        const int64_t n = recording.steps();
        if (m_next_step > n || !recording.step(m_next_step).fed || (m_next_step == n && !ended)) return;
        if (!judge(recording, m_next_step)) return;
    }
}

void BlockedFires::obey_commands(const Recording& recording, int64_t step) {
    const auto& commands = recording.commands();
    const size_t before = m_commands;
    for (const size_t n = commands.size(); m_commands < n && commands[m_commands].step <= step; ++m_commands)
        obey(m_config, commands[m_commands]);
    if (!m_freed || m_commands != before) m_freed.emplace(m_config.policy);
}

/// \return false: the boundary waits for a refresh that is under way
bool BlockedFires::judge(const Recording& recording, int64_t t) {
    const auto& refreshes = recording.refreshes();
    const size_t known = refreshes.size();
    if (m_in_flight) { // it has been asked, and the answer comes when something landed
        if (m_next >= known) return false;
        m_in_flight = false;
    } else {
        obey_commands(recording, t);
        // One that fired before lands at the beginning of its boundary.
        if (m_next < known && refreshes[m_next].step == t && refreshes[m_next].fired_step < t)
            land(recording);
        const bool fired_here = m_next < known && refreshes[m_next].fired_step == t,
                   in_flight = m_next < known && refreshes[m_next].fired_step < t;
        const bool last = m_config.policy.on_fire == OnFire::keep && is_last_choice(recording, t);
        if (!in_flight && !last && !ask(recording, t, fired_here && refreshes[m_next].automatic)) {
            m_in_flight = true;
            return false;
        }
    }
    if (m_next >= known || refreshes[m_next].fired_step != t) return true;
    if (refreshes[m_next].automatic) m_automatic.push_back(t);
    if (refreshes[m_next].step == t) land(recording);
    return true;
}

void BlockedFires::land(const Recording& recording) {
    const RefreshEvent& event = recording.refreshes()[m_next++];
    m_last_splice = event.step;
    m_spliced_to = event.fired_step;
    m_last_pass = event.on_fire == OnFire::teacher_token ? event.step : event.fired_step;
}

/// \return false: nothing stood in the way, so it fired, and has not landed
bool BlockedFires::ask(const Recording& recording, int64_t t, bool fired) {
    std::array<float, max_signals> known{};
    std::ranges::copy(recording.measured(t), known.begin());
    for (const size_t id : probed_signal_ids())
        known[id] = absent();
    LayerValues layers;
    for (const Trigger& trigger : m_config.policy.triggers) {
        const auto id = find_signal(recording.signals(), trigger.signal);
        if (id && trigger.reduce != Reduction::mean) layers.set(*id, recording.layer_values(t, *id));
    }
    const Boundary boundary{.step = t,
                            .tokens_since_splice = t - m_spliced_to,
                            .tokens_since_pass = t - m_last_pass,
                            .last_splice_step = m_last_splice,
                            .automatic_steps = m_automatic,
                            .signals = known,
                            .layers = &layers,
                            .table = recording.signals()};
    if (decide(m_config.policy, boundary).kind == Decision::Kind::probe) {
        for (const size_t id : probed_signal_ids()) {
            const float value = recording.signal(t, id);
            known[id] = is_absent(value) ? std::numeric_limits<float>::quiet_NaN() : value;
        }
        m_last_pass = t;
    }
    // The boundaries of drafts that were rejected are not in the recording, and a threshold may have moved by itself.
    if (fired || m_config.policy.on_fire == OnFire::verify) return true;
    Decision free = decide(m_freed->free, boundary);
    if (!free.automatic) return true;
    const bool budget = !decide(m_freed->no_cooldown, boundary).automatic,
               cooldown = !decide(m_freed->no_budget, boundary).automatic;
    if (!budget && !cooldown) return false;
    m_blocked.push_back({t, budget, cooldown, std::move(free.hits)});
    return true;
}

std::vector<BlockedFire> blocked_fires(const Recording& recording) {
    BlockedFires fires;
    fires.update(recording);
    const auto all = fires.all();
    return {all.begin(), all.end()};
}

} // namespace refreshlab
