#include "engine/signals/signal_list.h"

// Right or wrong, against the model's own first choice and against the task a prompt belongs to.
namespace refreshlab::signal_definition {

Signal top1_hit() {
    return {.name = "top1_hit",
            .label = "First choice",
            .unit = "",
            .description = "1 where y_t is the arg max of the row by which it was chosen (after on_fire), "
                           "else 0; on a given "
                           "text its mean is the token accuracy.",
            .cost_hint = "free",
            .cost = SignalCost::free,
            .about = SignalAbout::token,
            .min = 0,
            .max = 1,
            .default_threshold = 0,
            .letter = 0,
            .back_filled = false,
            .band = {},
            .value = [](const SignalInputs& in) { return in.top1_hit; }};
}

Signal task_score() {
    return {
        .name = "task_score",
        .label = "Task score",
        .unit = "",
        .description =
            "1 where y_t belongs to a right part of the task's answer, 0 to a wrong one; absent where the "
            "task "
            "does not score it. On a given text: whether the model's first choices would have been right.",
        .cost_hint = "free",
        .cost = SignalCost::free,
        .about = SignalAbout::token,
        .min = 0,
        .max = 1,
        .default_threshold = 0,
        .letter = 0,
        .back_filled = true,
        .band = {},
        .value = [](const SignalInputs& in) { return in.task_score; }};
}

} // namespace refreshlab::signal_definition
