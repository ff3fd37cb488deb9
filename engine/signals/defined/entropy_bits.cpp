#include "engine/signals/signal_list.h"

namespace refreshlab::signal_definition {

Signal entropy_bits() {
    return {.name = "entropy_bits",
            .label = "Entropy",
            .unit = "bits",
            .description =
                "Entropy -sum p log2 p of the decoding model's raw next-token distribution (temperature 1, "
                "no top-k or top-p); at most log2 of the vocabulary size (refresh.md, 5).",
            .cost_hint = "free",
            .cost = SignalCost::free,
            .about = SignalAbout::next_token,
            .min = 0,
            .max = 0, // log2 V
            .default_threshold = 6.0,
            .letter = 'E',
            .back_filled = false,
            .band = {},
            .value = [](const SignalInputs& in) -> std::optional<double> {
                if (!in.row) return std::nullopt;
                return in.row->finite ? in.row->entropy_bits : std::numeric_limits<double>::quiet_NaN();
            }};
}

} // namespace refreshlab::signal_definition
