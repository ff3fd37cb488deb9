#include "engine/signals/signal_list.h"

namespace refreshlab::signal_definition {

Signal last_drift() {
    return {.name = "last_drift",
            .label = "Drift at the last refresh",
            .unit = "",
            .description = "Mean drift of the delta that the last refresh before this boundary rewrote; "
                           "absent before the first.",
            .cost_hint = "free: what the last refresh measured",
            .cost = SignalCost::free,
            .about = SignalAbout::session,
            .min = 0,
            .max = 1,
            .default_threshold = 0,
            .letter = 0, // it stands still between refreshes: a term of a gate, no trigger
            .back_filled = false,
            .band = {},
            .value = [](const SignalInputs& in) { return in.last_drift; }};
}

} // namespace refreshlab::signal_definition
