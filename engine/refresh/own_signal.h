#pragma once

#include "engine/refresh/signal_expression.h"
#include "engine/signals/published.h"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// A signal that a policy brings along as data: offset + the sum of weight * value over signals of the same step, as a fit gives it, or an
/// expression that a person wrote. A run publishes it, so it is plotted, recorded and used as a trigger like any other. A sum is absent
/// where one of its terms is that does not say what stands in then.
/// JSON: {"name": "fitted_gate", "offset": -1.5, "weights": {"entropy_bits": 0.4, "last_kl_nats": {"weight": 0.2, "absent_as": 0.7}}} or
/// {"name": "rise", "expression": "entropy_bits - mean(entropy_bits, 16)"}
struct OwnSignal {
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
    std::optional<SignalExpression> expression = {}; ///< in place of offset and terms

    [[nodiscard]] std::vector<std::string_view>
    reads() const; ///< signals of the registry, each once; views of this
    /// How many steps before its own it looks back at.
    [[nodiscard]] int64_t reach() const { return expression ? expression->reach() : 0; }
    friend bool operator==(const OwnSignal&, const OwnSignal&) = default;
};

inline constexpr size_t most_own_signals = 4; ///< of one policy
inline constexpr size_t most_terms = 32;

/// Its value at a step, rounded as a record holds it. \param step  from 1
/// \param read  a signal of the registry at a step from 1 to this one; absent() where there is none
[[nodiscard]] float own_value(const OwnSignal& signal, int64_t step,
                              const std::function<float(std::string_view signal, int64_t step)>& read);

/// Why a signal cannot be a term: it is about the token before, or known after a teacher pass alone. Empty where it can.
[[nodiscard]] std::string why_no_term(std::string_view signal);

/// "rise = entropy_bits - mean(entropy_bits, 16)": a name and an expression. Throws Error{bad_input}: no "=", no name, and what
/// ExpressionError says, with the column.
[[nodiscard]] OwnSignal own_signal_from_text(std::string_view text, const std::string& what);
/// Throws Error{bad_input} with the column.
[[nodiscard]] SignalExpression read_expression(std::string_view text, const std::string& what,
                                               const std::string& path);

/// What a run publishes for the i-th signal of its policy.
[[nodiscard]] PublishedSignal published_form(const OwnSignal& signal, size_t index);

/// Throws Error{bad_input} in one line: no list, a name that is none or the registry's or stands twice, no terms or unknown ones,
/// weights that are no finite numbers, an expression that is none, weights beside an expression.
[[nodiscard]] std::vector<OwnSignal> own_signals_from_json(const nlohmann::json& json,
                                                           const std::string& what);
void check_own_signals(std::span<const OwnSignal> signals, const std::string& what);
[[nodiscard]] nlohmann::json own_signals_to_json(std::span<const OwnSignal> signals);

} // namespace refreshlab
