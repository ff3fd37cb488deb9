#include "ui/scene/policy/trigger_state.h"

#include "engine/signals/registry.h"
#include "ui/base/value_format.h"

#include <fmt/format.h>

#include <optional>

namespace refreshlab::ui {

RunState run_state(EngineState engine, bool live) {
    if (!live) return RunState::ended; // of a file
    switch (engine) {
    case EngineState::running:
    case EngineState::prefilling:
        return RunState::running;
    case EngineState::paused:
        return RunState::paused;
    case EngineState::finished:
    case EngineState::failed:
        return RunState::ended;
    case EngineState::idle:
    case EngineState::loading:
        return RunState::none;
    }
    return RunState::none;
}

std::vector<TriggerState> trigger_states(const Recording* recording, int64_t steps,
                                         const RefreshPolicy& policy, RunState run) {
    std::vector<TriggerState> states;
    const int64_t next = steps + 1;
    std::optional<int64_t> last;
    bool spent = false;
    if (recording != nullptr) {
        const auto& refreshes = recording->refreshes();
        if (const size_t count = refreshes.size()) last = refreshes[count - 1].step;
        spent = policy.budget.refreshes &&
                used_budget(*recording, next, policy.budget) >= *policy.budget.refreshes;
    } else {
        spent = policy.budget.refreshes && *policy.budget.refreshes <= 0;
    }
    for (const Trigger& trigger : policy.triggers) {
        const int64_t wait = last ? *last + trigger.cooldown - next : 0;
        if (!trigger.enabled)
            states.push_back({"off"});
        else if (run == RunState::none)
            states.push_back({"no run"});
        else if (run == RunState::ended)
            states.push_back({"run ended"});
        else if (spent)
            states.push_back({"budget used up"});
        else if (wait > 0)
            states.push_back({fmt::format("cools down, {} left", wait)});
        else if (run == RunState::paused)
            states.push_back({"paused"});
        else
            states.push_back({"armed", true});
    }
    return states;
}

int64_t used_budget(const Recording& recording, int64_t steps, const Budget& budget) {
    const auto& refreshes = recording.refreshes();
    int64_t used = 0;
    for (size_t i = refreshes.size(); i-- > 0 && refreshes[i].step > steps - budget.per_tokens;)
        used += refreshes[i].automatic ? 1 : 0;
    return used;
}

std::string trigger_cost(const Trigger& trigger, const Signal* signal, int32_t mc_samples,
                         bool uncalibrated) {
    if (signal == nullptr) return {};
    switch (signal->cost) {
    case SignalCost::free:
        return "free until it fires";
    case SignalCost::teacher_pass:
        return fmt::format("one teacher pass every {}", format_count(trigger.every, "token"));
    case SignalCost::mc_rows:
        return fmt::format("{} every {}{}", format_count(mc_samples, "extra row"),
                           format_count(trigger.every, "token"), uncalibrated ? "; uncalibrated" : "");
    }
    return {};
}

} // namespace refreshlab::ui
