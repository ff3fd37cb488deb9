#pragma once

// Entries of the parameter table by the kind of their field.
#include "engine/control/parameter_table.h"

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace refreshlab::parameter_kinds {

using Kind = Parameter::Kind;

inline std::string to_text(double value) {
    return fmt::format("{}", value);
}
inline std::string to_text(bool value) {
    return value ? "true" : "false";
}
template <std::integral T>
std::string to_text(T value) {
    return fmt::format("{}", value);
}

/// A plain field: `field` is a generic accessor, so that one lambda serves reading and writing.
template <typename Field>
ParameterEntry plain(Parameter parameter, Field field) {
    ParameterEntry entry;
    entry.parameter = std::move(parameter);
    entry.get = [field](const RunConfig& config) -> std::optional<std::string> {
        return to_text(field(config));
    };
    entry.set = [field](RunConfig& config, const ParameterValue& value) {
        auto& target = field(config);
        using T = std::remove_reference_t<decltype(target)>;
        if constexpr (std::is_same_v<T, bool>) {
            target = value.flag;
        } else if constexpr (std::is_integral_v<T>) {
            target = static_cast<T>(value.whole);
        } else {
            target = value.number;
        }
    };
    return entry;
}

/// An optional whole number of the policy, "none" = no limit.
template <typename Field>
ParameterEntry limit(Parameter parameter, Field field) {
    ParameterEntry entry;
    entry.parameter = std::move(parameter);
    entry.parameter.optional = true;
    entry.parameter.of_policy = true;
    entry.get = [field](const RunConfig& config) -> std::optional<std::string> {
        const auto& value = field(config);
        return value ? to_text(*value) : "none";
    };
    entry.set = [field](RunConfig& config, const ParameterValue& value) {
        auto& target = field(config);
        if (value.none) {
            target.reset();
        } else {
            target = static_cast<int32_t>(value.whole);
        }
    };
    return entry;
}

inline Parameter real(std::string_view key, std::string_view label, std::string_view unit,
                      std::string_view help, double min, double max, double slider_min, double slider_max) {
    Parameter p;
    p.key = key;
    p.label = label;
    p.unit = unit;
    p.help = help;
    p.kind = Kind::real;
    p.min = min;
    p.max = max;
    p.slider_min = slider_min;
    p.slider_max = slider_max;
    return p;
}

inline Parameter integer(std::string_view key, std::string_view label, std::string_view unit,
                         std::string_view help, double min, double max, double slider_min,
                         double slider_max) {
    Parameter p = real(key, label, unit, help, min, max, slider_min, slider_max);
    p.kind = Kind::integer;
    return p;
}

inline Parameter boolean(std::string_view key, std::string_view label, std::string_view help) {
    Parameter p = real(key, label, "", help, 0, 1, 0, 1);
    p.kind = Kind::boolean;
    return p;
}

inline Parameter choice(std::string_view key, std::string_view label, std::string_view help,
                        std::vector<std::string_view> choices) {
    Parameter p;
    p.key = key;
    p.label = label;
    p.help = help;
    p.kind = Kind::choice;
    p.choices = std::move(choices);
    p.max = p.slider_max = static_cast<double>(p.choices.size() - 1);
    return p;
}

inline Parameter with_option(Parameter parameter, std::string_view option) {
    parameter.option = option;
    return parameter;
}

} // namespace refreshlab::parameter_kinds
