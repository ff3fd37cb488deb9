#include "tests/engine/refresh/naive_planner.h"

#include <cmath>

namespace refreshlab::testing {

namespace {

bool beyond(double value, const Trigger& trigger) {
    if (std::isnan(value) || std::isinf(value)) return false;
    if (trigger.comparison == Comparison::above) return value > trigger.threshold;
    if (trigger.comparison == Comparison::at_least) return value >= trigger.threshold;
    if (trigger.comparison == Comparison::below) return value < trigger.threshold;
    return value <= trigger.threshold;
}

} // namespace

NaiveRun naive_run(const RefreshPolicy& policy, const NaiveTrace& trace) {
    NaiveRun run;
    constexpr int64_t prompt = 11;                                  // L; any length
    int64_t student = prompt, teacher = prompt, watermark = prompt; // S.len, T.len, P
    int64_t last_splice = -1;                                       // none yet
    int64_t lands = -1,
            lands_to = 0; // of the refresh that the teacher is reading for: boundary, S.len when it fired
    bool waiting = false; // a person asked while it was reading
    for (int64_t t = 1; t <= trace.steps; ++t) {
        student = prompt + t; // y_t was fed
        const bool by_hand = trace.manual[static_cast<size_t>(t - 1)] || waiting;
        if (lands == t) {
            watermark = lands_to;
            last_splice = t;
            lands = -1;
        }
        waiting = by_hand && lands > t;
        if (lands > t) continue;

        // Which triggers hold, the probe's left open for now.
        const Trigger* probe = nullptr;
        bool others_hold = true;
        std::vector<bool> held(policy.triggers.size(), false);
        for (size_t i = 0; i < policy.triggers.size(); ++i) {
            const Trigger& trigger = policy.triggers[i];
            if (!trigger.enabled) continue;
            if (trigger.signal == "kl_nats") {
                probe = &trigger;
                continue;
            }
            const bool rested =
                trigger.cooldown == 0 || last_splice < 0 || t - last_splice >= trigger.cooldown;
            const double value = trigger.signal == "steps_since_refresh"
                                     ? static_cast<double>(student - watermark)
                                     : static_cast<double>(*trace.at(trigger.signal, t));
            held[i] = t % trigger.every == 0 && rested && beyond(value, trigger);
            others_hold = others_hold && held[i];
        }

        // The probe: M tokens since the teacher read last. Measuring costs a pass, whatever comes of it.
        const bool wanted = policy.combine == Combine::any || others_hold;
        if (probe != nullptr && student - teacher >= probe->every && wanted) {
            teacher = student;
            run.passes.push_back(t);
            const bool rested = probe->cooldown == 0 || last_splice < 0 || t - last_splice >= probe->cooldown;
            held[static_cast<size_t>(probe - policy.triggers.data())] =
                rested && beyond(static_cast<double>(*trace.at("kl_nats", t)), *probe);
        }

        bool some = false, every = true;
        std::vector<std::string> names;
        for (size_t i = 0; i < policy.triggers.size(); ++i) {
            if (!policy.triggers[i].enabled) continue;
            some = some || held[i];
            every = every && held[i];
            if (held[i]) names.push_back(policy.triggers[i].signal);
        }
        const bool fires = policy.combine == Combine::any ? some : some && every;

        int64_t counted = 0; // automatic refreshes at boundaries in (t - per_tokens, t]
        for (const NaiveRun::Event& event : run.refreshes) {
            if (event.automatic && event.step > t - policy.budget.per_tokens && event.step <= t) ++counted;
        }
        const bool room = !policy.budget.refreshes || counted < *policy.budget.refreshes;
        const bool automatic = fires && room;
        if (fires && !room) run.blocked.push_back(t);
        if (!automatic && !by_hand) continue;
        if (teacher < student) {
            teacher = student;
            run.passes.push_back(t);
        }
        if (policy.lag == 0) {
            watermark = student;
            last_splice = t;
        } else {
            lands = t + policy.lag;
            lands_to = student;
        }
        run.refreshes.push_back({t, automatic, by_hand, names});
    }
    return run;
}

} // namespace refreshlab::testing
