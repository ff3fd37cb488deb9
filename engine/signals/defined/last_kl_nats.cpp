#include "engine/signals/signal_list.h"

namespace refreshlab::signal_definition {

Signal last_kl_nats() {
    return {.name = "last_kl_nats",
            .label = "Last known KL",
            .unit = "nats",
            .description = "kl_nats of the newest position that a teacher pass had read before this "
                           "boundary; absent before the first "
                           "pass. What a gate can know of the KL without a probe.",
            .cost_hint = "free: what the last probe or refresh measured",
            .cost = SignalCost::free,
            .about = SignalAbout::session,
            .min = 0,
            .max = 5,
            .default_threshold = 0.5,
            .letter = 0, // it stands still between passes: a term of a gate, no trigger
            .back_filled = false,
            .band = {},
            .value = [](const SignalInputs& in) { return in.last_kl_nats; }};
}

} // namespace refreshlab::signal_definition
