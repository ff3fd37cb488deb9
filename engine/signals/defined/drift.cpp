#include "engine/signals/signal_list.h"

namespace refreshlab::signal_definition {

Signal drift() {
    return {.name = "drift",
            .label = "Cache drift",
            .unit = "",
            .description =
                "Mean over the layers of (eK + eV)/2 of this position, the relative distance of the "
                "student's from the teacher's K and V, taken before the splice (refresh.md, 6.2).",
            .cost_hint = "comes with every refresh",
            .cost = SignalCost::teacher_pass,
            .about = SignalAbout::session,
            .min = 0,
            .max = 1,
            .default_threshold = 0,
            .letter = 0, // known only at a refresh
            .back_filled = true,
            .band = {},
            .value = [](const SignalInputs& in) { return in.drift; }};
}

} // namespace refreshlab::signal_definition
