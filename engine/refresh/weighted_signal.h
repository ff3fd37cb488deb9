#pragma once

#include "engine/signals/published.h"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// A signal that a policy brings along as data: offset + the sum of weight * value over signals of the same step. A run publishes
/// it, so it is plotted, recorded and used as a trigger like any other. It is absent where one of its terms is that does not say what
/// stands in then.
/// JSON: {"name": "fitted_gate", "offset": -1.5, "weights": {"entropy_bits": 0.4, "last_kl_nats": {"weight": 0.2, "absent_as": 0.7}}}
struct WeightedSignal {
    struct Term {
        std::string signal; ///< why_no_term() is empty
        double weight = 0;
        /// Value that stands in where the signal has none: nothing is known of the teacher before its first pass, and MC rows may not be
        /// measured. Nothing: then the sum has no value either.
        std::optional<double> absent_as;

        friend bool operator==(const Term&, const Term&) = default;
    };
    std::string name; ///< is_signal_name(), none of the registry's
    double offset = 0;
    std::vector<Term> terms;

    friend bool operator==(const WeightedSignal&, const WeightedSignal&) = default;
};

inline constexpr size_t most_weighted_signals = 4; ///< of one policy
inline constexpr size_t most_terms = 32;

/// Its value at a step, rounded as a record holds it. \param value  of a signal of the registry at the step; absent() where there is none
[[nodiscard]] float weighted_value(const WeightedSignal& signal,
                                   const std::function<float(std::string_view signal)>& value);

/// Why a signal cannot be a term: it is about the token before, or known after a teacher pass alone. Empty where it can.
[[nodiscard]] std::string why_no_term(std::string_view signal);

/// What a run publishes for the i-th weighted signal of its policy.
[[nodiscard]] PublishedSignal published_form(const WeightedSignal& signal, size_t index);

/// Throws Error{bad_input} in one line: no list, a name that is none or the registry's or stands twice, no terms or unknown ones,
/// weights that are no finite numbers.
[[nodiscard]] std::vector<WeightedSignal> weighted_signals_from_json(const nlohmann::json& json,
                                                                     const std::string& what);
void check_weighted_signals(std::span<const WeightedSignal> signals, const std::string& what);
[[nodiscard]] nlohmann::json weighted_signals_to_json(std::span<const WeightedSignal> signals);

} // namespace refreshlab
