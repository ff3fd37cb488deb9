#include "engine/signals/signal_list.h"

namespace refreshlab::signal_definition {

Signal mc_mutual_information_bits() {
    return {.name = "mc_mutual_information_bits",
            .label = "MC mutual information",
            .unit = "bits",
            .description =
                "H(mean_i p_i) - mean_i H(p_i) over the MC-dropout rows, the epistemic part of the entropy "
                "(BALD, Houlsby et al. 2011; refresh.md, 7).",
            .cost_hint = "comes with mc_variance: N extra rows of the student's forward where measured",
            .cost = SignalCost::mc_rows,
            .about = SignalAbout::next_token,
            .min = 0,
            .max = 0.5,
            .default_threshold =
                0.12, // 96 % quantile on the bundled pair: 0.11 on chronicles, 0.15 on stories
            .letter = 'M',
            .back_filled = false,
            .band = {},
            .value = [](const SignalInputs& in) -> std::optional<double> {
                if (!in.mc) return std::nullopt;
                return in.mc->mutual_information_bits;
            }};
}

} // namespace refreshlab::signal_definition
