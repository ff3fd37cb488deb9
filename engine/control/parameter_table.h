#pragma once

#include "engine/control/parameters.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab {

/// A value that was parsed and found in range.
struct ParameterValue {
    bool none = false;         ///< "none" of an optional parameter
    double number = 0;         ///< real, integer
    uint64_t whole = 0;        ///< integer, exact (a seed has 64 bits)
    bool flag = false;         ///< boolean
    size_t choice = 0;         ///< index in Parameter::choices
    std::vector<int64_t> list; ///< ascending
    std::string_view text;     ///< text, as it was given
};

/// A parameter and how it is read from and written to a configuration.
struct ParameterEntry {
    Parameter parameter;
    std::string word; ///< of a trigger's field: what its trigger is called in messages, "entropy"
    bool of_run =
        false; ///< a field of RunConfig itself, and its key the place in the JSON (parameter_json.h)
    bool newer =
        false; ///< of_run: earlier programs do not know it, so it is written only where it is not the default
    std::string_view earlier_name{};      ///< of_run: the key's last word in files of earlier versions
    std::optional<double> earlier_none{}; ///< of_run, optional: what they write in place of null
    /// Of a field that not every configuration has: why this one has it not; null: the policy lacks the trigger.
    std::function<std::string(const RunConfig&)> why_absent{};
    /// Of a field that is live in some configurations: why it is fixed in this one, empty if it is not; null: Parameter::live says it.
    std::function<std::string(const RunConfig&)> why_fixed{};
    std::function<std::optional<std::string>(const RunConfig&)>
        get; ///< nothing: the configuration has no such thing
    std::function<void(RunConfig&, const ParameterValue&)> set; ///< only called when get gives something
    /// Of Kind::text: whether it has the form of the parameter. set() is called with such a text alone.
    std::function<bool(std::string_view)> reads{};
};

/// In the order of the list; never moves.
[[nodiscard]] const std::vector<ParameterEntry>& parameter_table();

/// The trigger of a signal, or null; a policy has at most one.
[[nodiscard]] Trigger* find_trigger(RefreshPolicy& policy, std::string_view signal);
[[nodiscard]] const Trigger* find_trigger(const RefreshPolicy& policy, std::string_view signal);

/// The key of the list for any spelling of a trigger's field ("kl_nats.stride" -> "kl.every"; "stride" is what earlier
/// versions called `every`); others come back as they are.
[[nodiscard]] std::string listed_key(std::string_view key);

} // namespace refreshlab
