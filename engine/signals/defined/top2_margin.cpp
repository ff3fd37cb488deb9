#include "engine/signals/signal_list.h"

namespace refreshlab::signal_definition {

Signal top2_margin() {
    return {.name = "top2_margin",
            .label = "Top-2 margin",
            .unit = "",
            .description =
                "p of the likeliest next token minus p of the second likeliest, of the decoding model's raw "
                "distribution (margin sampling, Scheffer et al. 2001): near 0 where two tokens compete.",
            .cost_hint = "free",
            .cost = SignalCost::free,
            .about = SignalAbout::next_token,
            .min = 0,
            .max = 1,
            .default_threshold = 0.02,
            .letter = 'G',
            .back_filled = false,
            .band = {},
            .value = [](const SignalInputs& in) -> std::optional<double> {
                if (!in.row) return std::nullopt;
                if (!in.row->finite) return std::numeric_limits<double>::quiet_NaN();
                if (std::isnan(in.row->top2_prob)) return std::nullopt; // not given
                return in.row->top1_prob - in.row->top2_prob;
            }};
}

} // namespace refreshlab::signal_definition
