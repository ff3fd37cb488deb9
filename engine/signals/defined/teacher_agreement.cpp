#include "engine/signals/signal_list.h"

namespace refreshlab::signal_definition {

Signal teacher_agreement() {
    return {.name = "teacher_agreement",
            .label = "Teacher agrees",
            .unit = "",
            .description =
                "1 where y_t is the arg max of the teacher's row for it, else 0; its mean over delta is the "
                "agreement of refresh.md, 7.",
            .cost_hint = "comes with every teacher pass",
            .cost = SignalCost::teacher_pass,
            .about = SignalAbout::token,
            .min = 0,
            .max = 1,
            .default_threshold = 0,
            .letter = 0,
            .back_filled = true,
            .band = {},
            .value = [](const SignalInputs& in) { return in.teacher_agrees; }};
}

} // namespace refreshlab::signal_definition
