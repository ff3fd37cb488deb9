#include "engine/signals/signal_list.h"

// What each model gave to the token that stands in the text.
namespace refreshlab::signal_definition {

Signal logprob() {
    return {.name = "logprob",
            .label = "Log-probability",
            .unit = "nats",
            .description = "ln p(y_t) at temperature 1 under the row from which y_t was drawn.",
            .cost_hint = "free",
            .cost = SignalCost::free,
            .about = SignalAbout::token,
            .min = -12,
            .max = 0,
            .default_threshold = 0,
            .letter = 0,
            .back_filled = false,
            .band = {},
            .value = [](const SignalInputs& in) { return in.logprob; }};
}

Signal teacher_logprob() {
    return {.name = "teacher_logprob",
            .label = "Teacher's log-probability",
            .unit = "nats",
            .description =
                "lp_t = ln p_T(y_t | x, y_<t) of the teacher reading its own columns; the mean of -lp_t is "
                "the log of teacher-PPL (refresh.md, 7).",
            .cost_hint = "comes with every teacher pass",
            .cost = SignalCost::teacher_pass,
            .about = SignalAbout::token,
            .min = -12,
            .max = 0,
            .default_threshold = 0,
            .letter = 0,
            .back_filled = true,
            .band = {},
            .value = [](const SignalInputs& in) { return in.teacher_logprob; }};
}

} // namespace refreshlab::signal_definition
