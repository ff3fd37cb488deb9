#include "engine/signals/signal_list.h"

// The mean over the passes and its band, from the same dropout rows.
namespace refreshlab::signal_definition {

Signal mc_entropy_bits() {
    return {.name = "mc_entropy_bits",
            .label = "MC expected entropy",
            .unit = "bits",
            .description =
                "mean_i H(p_i) over the MC-dropout rows, the part of the entropy that all passes agree on "
                "(refresh.md, 7).",
            .cost_hint = "comes with mc_variance: N extra rows of the student's forward where measured",
            .cost = SignalCost::mc_rows,
            .about = SignalAbout::next_token,
            .min = 0,
            .max = 0, // log2 V
            .default_threshold = 6.0,
            .letter = 'A',
            .back_filled = false,
            .band = "mc_entropy_sd_bits",
            .value = [](const SignalInputs& in) -> std::optional<double> {
                if (!in.mc) return std::nullopt;
                return in.mc->mean_entropy_bits;
            }};
}

Signal mc_entropy_sd_bits() {
    return {.name = "mc_entropy_sd_bits",
            .label = "MC expected entropy, sd",
            .unit = "bits",
            .description = "Unbiased standard deviation of H(p_i) over the MC-dropout rows.",
            .cost_hint = "comes with mc_entropy_bits",
            .cost = SignalCost::mc_rows,
            .about = SignalAbout::next_token,
            .min = 0,
            .max = 2,
            .default_threshold = 0,
            .letter = 0,
            .back_filled = false,
            .band = {},
            .value = [](const SignalInputs& in) -> std::optional<double> {
                if (!in.mc) return std::nullopt;
                return in.mc->mean_entropy_sd_bits;
            }};
}

} // namespace refreshlab::signal_definition
