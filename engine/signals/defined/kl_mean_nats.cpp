#include "engine/signals/signal_list.h"

namespace refreshlab::signal_definition {

Signal kl_mean_nats() {
    return {
        .name = "kl_mean_nats",
        .label = "Mean KL over delta",
        .unit = "nats",
        .description =
            "Mean of kl_nats over delta, the columns that no splice has handled yet: less noisy than the "
            "newest position alone. Known where a teacher pass read up to this boundary (refresh.md, 5, the "
            "option of the KL probe).",
        .cost_hint = "a teacher pass over delta, the same one as that of kl_nats",
        .cost = SignalCost::teacher_pass,
        .about = SignalAbout::session,
        .min = 0,
        .max = 5,
        .default_threshold = 0.5,
        .letter = 'D',
        .back_filled = false,
        .band = {},
        .value = [](const SignalInputs& in) { return in.kl_mean_nats; }};
}

} // namespace refreshlab::signal_definition
