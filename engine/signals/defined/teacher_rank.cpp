#include "engine/signals/signal_list.h"

namespace refreshlab::signal_definition {

Signal teacher_rank() {
    return {
        .name = "teacher_rank",
        .label = "Teacher's rank",
        .unit = "",
        .description =
            "Place of y_t in the teacher's row for it, sorted: 1 is the teacher's first choice; ties go to "
            "the lower id. Known where teacher_logprob is.",
        .cost_hint = "a teacher pass over delta, the same one as that of kl_nats",
        .cost = SignalCost::teacher_pass,
        .about = SignalAbout::token,
        .min = 1,
        .max = 0, // the vocabulary
        .default_threshold = 10,
        .letter = 'R',
        .back_filled = true,
        .band = {},
        .value = [](const SignalInputs& in) { return in.teacher_rank; }};
}

} // namespace refreshlab::signal_definition
