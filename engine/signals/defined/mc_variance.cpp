#include "engine/signals/signal_list.h"

// The mean over the vocabulary and its band, from the same dropout rows.
namespace refreshlab::signal_definition {

Signal mc_variance() {
    return {
        .name = "mc_variance",
        .label = "MC-dropout variance",
        .unit = "logit^2",
        .description =
            "Mean over the vocabulary of the unbiased variance of the logits over N passes with dropout "
            "on (Gal and Ghahramani 2016; refresh.md, 5).",
        .cost_hint =
            "N extra rows of the student's forward where measured; about 25 % of a step at N = 8 on a GPU",
        .cost = SignalCost::mc_rows,
        .about = SignalAbout::next_token,
        .min = 0,
        .max = 1,
        .default_threshold = 0.3,
        .letter = 'V',
        .back_filled = false,
        .band = "mc_variance_sd",
        .value = [](const SignalInputs& in) -> std::optional<double> {
            if (!in.mc) return std::nullopt;
            return in.mc->variance;
        }};
}

Signal mc_variance_sd() {
    return {.name = "mc_variance_sd",
            .label = "MC-dropout variance, sd",
            .unit = "logit^2",
            .description =
                "Jackknife standard error of the MC-dropout variance over its N passes; needs N >= 3.",
            .cost_hint = "comes with mc_variance",
            .cost = SignalCost::mc_rows,
            .about = SignalAbout::next_token,
            .min = 0,
            .max = 1,
            .default_threshold = 0,
            .letter = 0,
            .back_filled = false,
            .band = {},
            .value = [](const SignalInputs& in) -> std::optional<double> {
                if (!in.mc) return std::nullopt;
                // Two passes have no jackknife error: that is "not computed", not a broken number.
                if (std::isnan(in.mc->variance_sd) && std::isfinite(in.mc->variance)) return std::nullopt;
                return in.mc->variance_sd;
            }};
}

} // namespace refreshlab::signal_definition
