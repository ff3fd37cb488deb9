#include "tests/engine/refresh/naive_planner.h"

#include <algorithm>
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

float naive_mean_kl(const NaiveTrace& trace, int64_t first, int64_t last) {
    double sum = 0;
    for (int64_t t = first; t <= last; ++t)
        sum += static_cast<double>(*trace.at("kl_nats", t));
    return static_cast<float>(sum / static_cast<double>(last - first + 1));
}

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

        // Which triggers hold, those on the KL left open for now.
        bool some_due = false, all_due = true;
        bool others_hold = true;
        std::vector<bool> held(policy.triggers.size(), false);
        for (size_t i = 0; i < policy.triggers.size(); ++i) {
            const Trigger& trigger = policy.triggers[i];
            if (!trigger.enabled) continue;
            if (trigger.signal.starts_with("kl_")) {
                const bool due = student - teacher >= trigger.every; // M tokens since the teacher read last
                some_due = some_due || due;
                all_due = all_due && due;
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

        // The probe. Measuring costs a pass, whatever comes of it.
        if (some_due && (policy.combine == Combine::any || (all_due && others_hold))) {
            for (size_t i = 0; i < policy.triggers.size(); ++i) {
                const Trigger& trigger = policy.triggers[i];
                if (!trigger.enabled || !trigger.signal.starts_with("kl_")) continue;
                const bool rested =
                    trigger.cooldown == 0 || last_splice < 0 || t - last_splice >= trigger.cooldown;
                const float value = trigger.signal == "kl_nats"
                                        ? *trace.at("kl_nats", t)
                                        : naive_mean_kl(trace, watermark - prompt + 1, t);
                held[i] = student - teacher >= trigger.every && rested &&
                          beyond(static_cast<double>(value), trigger);
            }
            teacher = student;
            run.passes.push_back(t);
        }

        bool some = false, every = true;
        std::vector<std::string> names;
        for (size_t i = 0; i < policy.triggers.size(); ++i) {
            if (!policy.triggers[i].enabled) continue;
            some = some || held[i];
            every = every && held[i];
            if (held[i]) names.push_back(policy.triggers[i].signal);
        }
        const bool scheduled = std::find(policy.at.begin(), policy.at.end(), t) != policy.at.end();
        const bool fires = scheduled || (policy.combine == Combine::any ? some : some && every);
        if (scheduled) names.insert(names.begin(), "at");

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
