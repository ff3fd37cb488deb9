#include "engine/control/parameters.h"

#include "engine/base/error.h"
#include "engine/control/parameter_table.h"
#include "engine/signals/nearest_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace refreshlab {

namespace {

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view blanks = " \t\r\n";
    const size_t first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// The whole text, or nothing.
template <typename T>
std::optional<T> parsed(std::string_view text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::string quoted(std::string_view value) {
    constexpr size_t longest = 40;
    return value.size() <= longest ? fmt::format("\"{}\"", value)
                                   : fmt::format("a text of {} characters", value.size());
}

std::string range_text(const Parameter& p) {
    if (p.kind == Parameter::Kind::boolean) return "true or false";
    if (p.kind == Parameter::Kind::choice) return fmt::format("one of {}", fmt::join(p.choices, ", "));
    if (p.kind == Parameter::Kind::text) return std::string(p.form);
    if (p.kind == Parameter::Kind::list)
        return fmt::format("ascending whole numbers from {} to {} with commas, or {}", p.min, p.max,
                           p.choices.front());
    const std::string unit = p.unit.empty() ? "" : fmt::format(" {}", p.unit);
    const std::string max = p.key == "seed" ? fmt::format("{}", UINT64_MAX) : fmt::format("{}", p.max);
    return fmt::format("{} to {}{}{}", p.min, max, unit, p.optional ? ", or none" : "");
}

/// "12,40,64"; nothing unless all are whole numbers in range and ascend.
std::optional<std::vector<int64_t>> parsed_list(const Parameter& p, std::string_view text) {
    std::vector<int64_t> list;
    while (true) {
        const size_t comma = std::min(text.find(','), text.size());
        const auto number = parsed<int64_t>(trimmed(text.substr(0, comma)));
        const int64_t least = list.empty() ? static_cast<int64_t>(p.min) : list.back() + 1;
        if (!number || *number < least || *number > static_cast<int64_t>(p.max)) return std::nullopt;
        list.push_back(*number);
        if (comma == text.size()) return list;
        text.remove_prefix(comma + 1);
    }
}

ParameterValue parse_value(const ParameterEntry& entry, std::string_view text) {
    const Parameter& p = entry.parameter;
    const auto refuse = [&](const std::string& problem) {
        throw Error("setting", std::string(p.key), quoted(text) + " " + problem, range_text(p));
    };
    ParameterValue value;
    if (p.optional && text == "none") {
        value.none = true;
        return value;
    }
    switch (p.kind) {
    case Parameter::Kind::boolean:
        value.flag = text == "true" || text == "1" || text == "on";
        if (!value.flag && text != "false" && text != "0" && text != "off")
            refuse("is neither true nor false");
        break;
    case Parameter::Kind::choice: {
        const auto it = std::find(p.choices.begin(), p.choices.end(), text);
        if (it == p.choices.end()) refuse("is no choice");
        value.choice = static_cast<size_t>(it - p.choices.begin());
        break;
    }
    case Parameter::Kind::text:
        if (!entry.reads(text)) refuse("is no such text");
        value.text = text;
        break;
    case Parameter::Kind::list: {
        if (text == p.choices.front()) break;
        auto list = parsed_list(p, text);
        if (!list) refuse("is no list of whole numbers");
        value.list = *std::move(list);
        break;
    }
    case Parameter::Kind::integer:
    case Parameter::Kind::real: {
        const std::optional<double> number = parsed<double>(text);
        if (!number || std::isnan(*number)) refuse("is not a number");
        value.number = *number;
        // 2^64 itself is above every 64-bit seed, hence the exact look below.
        if (!(*number >= p.min && *number <= p.max)) refuse("is out of range");
        if (p.kind == Parameter::Kind::real) break;
        if (const std::optional<uint64_t> whole = parsed<uint64_t>(text)) {
            value.whole = *whole;
        } else if (*number != std::floor(*number)) {
            refuse("is not a whole number");
        } else if (*number >= 18446744073709551616.0) {
            refuse("is out of range");
        } else {
            value.whole = static_cast<uint64_t>(*number); // "64.0", "1e3"
        }
        break;
    }
    }
    return value;
}

std::optional<size_t> find_index(std::string_view key) {
    const std::string listed = listed_key(key);
    const std::vector<ParameterEntry>& table = parameter_table();
    for (size_t i = 0; i < table.size(); ++i) {
        if (table[i].parameter.key == listed) return i;
    }
    return std::nullopt;
}

const ParameterEntry* find_entry(std::string_view key) {
    const std::optional<size_t> index = find_index(key);
    return index ? &parameter_table()[*index] : nullptr;
}

} // namespace

std::span<const Parameter> parameters() {
    static const std::vector<Parameter> all = [] {
        std::vector<Parameter> list;
        for (const ParameterEntry& entry : parameter_table())
            list.push_back(entry.parameter);
        return list;
    }();
    return all;
}

const Parameter* find_parameter(std::string_view key) {
    const std::optional<size_t> index = find_index(key);
    return index ? &parameters()[*index] : nullptr;
}

std::string parameter_hint(std::string_view key) {
    std::vector<std::string_view> keys;
    for (const Parameter& p : parameters())
        keys.push_back(p.key);
    return name_hint(key, keys, "parameters");
}

std::optional<std::string> parameter_value(const RunConfig& config, std::string_view key) {
    const ParameterEntry* entry = find_entry(key);
    return entry == nullptr ? std::nullopt : entry->get(config);
}

void set_parameter(RunConfig& config, std::string_view key, std::string_view value) {
    const std::string_view name = trimmed(key);
    const ParameterEntry* entry = find_entry(name);
    if (entry == nullptr)
        throw Error("setting", std::string(name), "there is no such parameter", parameter_hint(name));
    const ParameterValue parsed_value = parse_value(*entry, trimmed(value));
    if (!entry->get(config) && entry->why_absent)
        throw Error("setting", std::string(name), entry->why_absent(config));
    if (!entry->get(config)) {
        std::vector<std::string_view> others;
        for (const Trigger& trigger : config.policy.triggers)
            others.push_back(trigger.signal);
        throw Error("setting", std::string(name),
                    fmt::format("policy {} has no {} trigger", config.policy.name, entry->word),
                    others.empty() ? "it has no triggers"
                                   : fmt::format("its triggers: {}", fmt::join(others, ", ")));
    }
    entry->set(config, parsed_value);
}

std::string fixed_reason(const RunConfig& config, std::string_view key) {
    const ParameterEntry* entry = find_entry(trimmed(key));
    if (entry == nullptr) return {};
    if (!entry->parameter.live) return "cannot change during a run";
    return entry->why_fixed ? entry->why_fixed(config) : std::string();
}

void set_live_parameter(RunConfig& config, std::string_view key, std::string_view value) {
    if (const std::string why = fixed_reason(config, key); !why.empty())
        throw Error("setting", std::string(key), why, "start a new run with it");
    set_parameter(config, key, value);
}

void set_parameter(RunConfig& config, std::string_view assignment) {
    const size_t equals = assignment.find('=');
    if (equals == std::string_view::npos) {
        throw Error("setting", std::string(assignment), "expected KEY=VALUE",
                    "for example entropy.threshold=5.2");
    }
    set_parameter(config, assignment.substr(0, equals), assignment.substr(equals + 1));
}

} // namespace refreshlab
