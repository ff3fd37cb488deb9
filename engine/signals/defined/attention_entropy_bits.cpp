#include "engine/signals/signal_list.h"

namespace refreshlab::signal_definition {

Signal attention_entropy_bits() {
    return {.name = "attention_entropy_bits",
            .label = "Attention entropy",
            .unit = "bits",
            .description =
                "Per layer the mean over the query heads of -sum a log2 a of this step's attention row, from "
                "0 (one "
                "position takes all) to log2 of the positions that attention reads (Zhai et al. 2023).",
            .cost_hint = "needs the attention probabilities: measured where the step captures attention",
            .cost = SignalCost::free,
            .about = SignalAbout::next_token,
            .min = 0,
            .max = 0, // log2 of the positions
            .default_threshold = 4.0,
            .letter = 'N',
            .back_filled = false,
            .band = {},
            .value = [](const SignalInputs& in) -> std::optional<double> {
                const float mean = layer_mean(in.attention_entropy_bits);
                if (is_absent(mean)) return std::nullopt;
                return static_cast<double>(mean);
            },
            .layered = true,
            .attention = true,
            .layer_values =
                [](const SignalInputs& in, std::vector<float>& out) {
                    out.insert(out.end(), in.attention_entropy_bits.begin(), in.attention_entropy_bits.end());
                }};
}

} // namespace refreshlab::signal_definition
