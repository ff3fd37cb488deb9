#include "engine/signals/signal_list.h"

namespace refreshlab::signal_definition {

Signal varentropy_bits2() {
    return {.name = "varentropy_bits2",
            .label = "Varentropy",
            .unit = "bits^2",
            .description =
                "Variance sum p (-log2 p - H)^2 of the information content of the decoding model's raw "
                "next-token "
                "distribution (Kontoyiannis and Verdu 2014): 0 where all possible tokens are equally likely, "
                "large where a few likely ones stand beside a long tail.",
            .cost_hint = "free",
            .cost = SignalCost::free,
            .about = SignalAbout::next_token,
            .min = 0,
            .max = 30, // usual; the largest possible is near (log2 V)^2 / 4
            .default_threshold = 8.0,
            .letter = 'W',
            .back_filled = false,
            .band = {},
            .value = [](const SignalInputs& in) -> std::optional<double> {
                if (!in.row) return std::nullopt;
                if (!in.row->finite) return std::numeric_limits<double>::quiet_NaN();
                if (std::isnan(in.row->varentropy_bits2)) return std::nullopt; // not given
                return in.row->varentropy_bits2;
            }};
}

} // namespace refreshlab::signal_definition
