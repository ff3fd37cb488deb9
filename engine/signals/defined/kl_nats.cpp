#include "engine/signals/signal_list.h"

namespace refreshlab::signal_definition {

Signal kl_nats() {
    return {
        .name = "kl_nats",
        .label = "KL teacher || student",
        .unit = "nats",
        .description =
            "KL(p_T || p_S) of the raw teacher and student rows at this position, known where a teacher "
            "pass read it: at probes and, back-filled, after every refresh (refresh.md, 5 and 6.1).",
        .cost_hint =
            "a teacher pass over delta; a refresh that follows reuses it; shadow mode pays a teacher step "
            "per token",
        .cost = SignalCost::teacher_pass,
        .about = SignalAbout::next_token,
        .min = 0,
        .max = 5,
        .default_threshold = 0.5,
        .letter = 'K',
        .back_filled = true,
        .band = {},
        .value = [](const SignalInputs& in) { return in.kl_nats; }};
}

} // namespace refreshlab::signal_definition
