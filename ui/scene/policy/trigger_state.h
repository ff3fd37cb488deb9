#pragma once

#include "engine/control/engine_link.h"
#include "engine/record/recording/recording.h"
#include "engine/refresh/policy.h"

#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// Whether there will be a next boundary, as far as that is known.
enum class RunState : uint8_t { running, paused, ended, none };
/// Of the run that is shown.
/// \param live  it is the engine's
[[nodiscard]] RunState run_state(EngineState engine, bool live);

/// State of a trigger: "armed", "off", or what keeps it from firing at the next boundary. Only a run that goes on has
/// armed triggers; else it is "paused", "run ended" or "no run".
struct TriggerState {
    std::string text;
    bool armed = false;
};

/// What the planner would say of each trigger at the next boundary, as far as it is known now.
/// \param recording  null = no run yet
/// Cost: the refreshes within the budget's stretch.
[[nodiscard]] std::vector<TriggerState> trigger_states(const Recording* recording, int64_t steps,
                                                       const RefreshPolicy& policy, RunState run);

/// Automatic refreshes among the budget's newest per_tokens tokens.
[[nodiscard]] int64_t used_budget(const Recording& recording, int64_t steps, const Budget& budget);

/// What a trigger costs, in words.
/// \param signal        its signal; null = unknown: then empty
/// \param uncalibrated  a student is loaded whose MC dropout was never trained
[[nodiscard]] std::string trigger_cost(const Trigger& trigger, const Signal* signal, int32_t mc_samples,
                                       bool uncalibrated);

} // namespace refreshlab::ui
