#include "engine/signals/signal_list.h"

namespace refreshlab::signal_definition {

Signal acceptance() {
    return {
        .name = "acceptance",
        .label = "Acceptance",
        .unit = "",
        .description =
            "Sum over the vocabulary of min(p_T, p_S) of the raw teacher and student rows at this position: "
            "the chance that speculative sampling takes a token that the student drew (Leviathan et al. "
            "2023). Known where kl_nats is.",
        .cost_hint = "a teacher pass over delta, the same one as that of kl_nats",
        .cost = SignalCost::teacher_pass,
        .about = SignalAbout::next_token,
        .min = 0,
        .max = 1,
        .default_threshold = 0.5,
        .letter = 'O',
        .back_filled = true,
        .band = {},
        .value = [](const SignalInputs& in) { return in.acceptance; }};
}

} // namespace refreshlab::signal_definition
