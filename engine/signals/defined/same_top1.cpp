#include "engine/signals/signal_list.h"

namespace refreshlab::signal_definition {

Signal same_top1() {
    return {.name = "same_top1",
            .label = "Same first choice",
            .unit = "",
            .description =
                "1 where teacher and student rows at this position have one arg max, else 0; its mean is the "
                "share of the same top token in tables of KL divergence. Known where kl_nats is.",
            .cost_hint = "a teacher pass over delta, the same one as that of kl_nats",
            .cost = SignalCost::teacher_pass,
            .about = SignalAbout::next_token,
            .min = 0,
            .max = 1,
            .default_threshold = 0.5,
            .letter = 'F',
            .back_filled = true,
            .band = {},
            .value = [](const SignalInputs& in) { return in.same_top1; }};
}

} // namespace refreshlab::signal_definition
