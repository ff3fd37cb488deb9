#include "engine/signals/signal_list.h"

namespace refreshlab::signal_definition {

Signal steps_since_refresh() {
    return {.name = "steps_since_refresh",
            .label = "Steps since refresh",
            .unit = "tokens",
            .description =
                "S.len - P: tokens fed since the last splice of any cause, before a refresh at this boundary "
                "(refresh.md, 5, periodic).",
            .cost_hint = "free",
            .cost = SignalCost::free,
            .about = SignalAbout::session,
            .min = 0,
            .max = 256,
            .default_threshold = 64,
            .letter = 'P',
            .back_filled = false,
            .band = {},
            .value = [](const SignalInputs& in) -> std::optional<double> {
                if (in.steps_since_refresh < 0) return std::nullopt;
                return static_cast<double>(in.steps_since_refresh);
            }};
}

} // namespace refreshlab::signal_definition
