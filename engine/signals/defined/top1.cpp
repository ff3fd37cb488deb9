#include "engine/signals/signal_list.h"

// The probability of the likeliest next token, and the same in bits.
namespace refreshlab::signal_definition {

Signal top1_surprisal_bits() {
    return {.name = "top1_surprisal_bits",
            .label = "Top-1 surprisal",
            .unit = "bits",
            .description =
                "-log2 max p of the decoding model's raw row: tells \"cannot know this\" from the ordinary "
                "ambiguity of prose (refresh.md, 7).",
            .cost_hint = "free",
            .cost = SignalCost::free,
            .about = SignalAbout::next_token,
            .min = 0,
            .max = 0,                 // log2 V
            .default_threshold = 5.3, // refresh.md, 12: 10 fires per 1,000 tokens of chronicle, 2.6 of story
            .letter = 'S',
            .back_filled = false,
            .band = {},
            .value = [](const SignalInputs& in) -> std::optional<double> {
                if (!in.row) return std::nullopt;
                if (!in.row->finite) return std::numeric_limits<double>::quiet_NaN();
                return 0.0 - std::log2(in.row->top1_prob); // never -0
            }};
}

Signal top1_prob() {
    return {.name = "top1_prob",
            .label = "Top-1 probability",
            .unit = "",
            .description = "max p of the decoding model's raw next-token distribution (temperature 1).",
            .cost_hint = "free",
            .cost = SignalCost::free,
            .about = SignalAbout::next_token,
            .min = 0,
            .max = 1,
            .default_threshold = 0.025, // 2^-5.3, see top1_surprisal_bits
            .letter = 'T',
            .back_filled = false,
            .band = {},
            .value = [](const SignalInputs& in) -> std::optional<double> {
                if (!in.row) return std::nullopt;
                return in.row->finite ? in.row->top1_prob : std::numeric_limits<double>::quiet_NaN();
            }};
}

} // namespace refreshlab::signal_definition
