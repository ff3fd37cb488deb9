#include "engine/control/cache_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

namespace refreshlab {

namespace {

using Kind = Parameter::Kind;
using Field = CachePolicyConfig RunConfig::*;

/// Texts made here must outlive the table's string_views.
std::string_view keep(std::string text) {
    static std::deque<std::string> texts;
    return texts.emplace_back(std::move(text));
}

Kind kind_of(CacheParameter::Kind kind) {
    switch (kind) {
    case CacheParameter::Kind::integer:
        return Kind::integer;
    case CacheParameter::Kind::real:
        return Kind::real;
    case CacheParameter::Kind::boolean:
        return Kind::boolean;
    case CacheParameter::Kind::choice:
        return Kind::choice;
    }
    return Kind::real;
}

std::string text_of(const CacheParameter& parameter, double value) {
    if (parameter.kind == CacheParameter::Kind::choice)
        return std::string(parameter.choices[static_cast<size_t>(value)]);
    if (parameter.kind == CacheParameter::Kind::boolean) return value != 0 ? "true" : "false";
    return fmt::format("{}", value);
}

ParameterEntry policy_entry(std::string_view owner, Field field) {
    ParameterEntry entry;
    Parameter& p = entry.parameter;
    p.key = keep(fmt::format("{}_cache.policy", owner));
    p.label = owner == "student" ? "Student's cache policy" : "Teacher's cache policy";
    p.help = "Which entries the cache keeps and attention reads; another policy starts with its own defaults "
             "(refreshlab policies).";
    p.kind = Kind::choice;
    p.live = false;
    for (const CacheMethod& method : cache_methods())
        p.choices.push_back(method.name);
    p.max = p.slider_max = static_cast<double>(p.choices.size() - 1);
    entry.get = [field](const RunConfig& config) -> std::optional<std::string> {
        return (config.*field).policy;
    };
    entry.set = [field](RunConfig& config, const ParameterValue& value) {
        config.*field = cache_policy_defaults(cache_methods()[value.choice].name, "a cache policy");
    };
    return entry;
}

ParameterEntry value_entry(std::string_view owner, Field field, const CacheParameter& parameter) {
    ParameterEntry entry;
    Parameter& p = entry.parameter;
    p.key = keep(fmt::format("{}_cache.{}", owner, parameter.key));
    p.label = keep(fmt::format("{}'s {}", owner == "student" ? "Student" : "Teacher", parameter.label));
    p.unit = parameter.unit;
    p.help = parameter.help;
    p.kind = kind_of(parameter.kind);
    p.min = parameter.min;
    p.max = parameter.max;
    p.slider_min = parameter.slider_min;
    p.slider_max = parameter.slider_max;
    p.choices = parameter.choices;
    p.live = std::ranges::any_of(cache_methods(), [&](const CacheMethod& method) {
        return std::ranges::any_of(method.parameters, [&](const CacheParameter& other) {
            return other.key == parameter.key && other.live;
        });
    });
    entry.why_fixed = [field, parameter](const RunConfig& config) -> std::string {
        const CacheMethod* method = find_cache_method((config.*field).policy);
        if (method == nullptr) return {};
        const auto own = std::ranges::find(method->parameters, parameter.key, &CacheParameter::key);
        if (own == method->parameters.end() || own->live) return {};
        return fmt::format("of cache policy {} cannot change during a run", method->name);
    };
    entry.get = [field, parameter](const RunConfig& config) -> std::optional<std::string> {
        const auto& values = (config.*field).values;
        const auto found = values.find(parameter.key);
        if (found == values.end()) return std::nullopt;
        return text_of(parameter, found->second);
    };
    entry.set = [field, parameter](RunConfig& config, const ParameterValue& value) {
        double& number = (config.*field).values.find(parameter.key)->second;
        switch (parameter.kind) {
        case CacheParameter::Kind::integer:
            number = static_cast<double>(value.whole);
            break;
        case CacheParameter::Kind::real:
            number = value.number;
            break;
        case CacheParameter::Kind::boolean:
            number = value.flag ? 1 : 0;
            break;
        case CacheParameter::Kind::choice:
            number = static_cast<double>(value.choice);
            break;
        }
    };
    entry.why_absent = [field, owner, parameter](const RunConfig& config) {
        const CachePolicyConfig& cache = config.*field;
        std::string own;
        for (const auto& [key, number] : cache.values)
            own += (own.empty() ? "; it has " : ", ") + key;
        return fmt::format("cache policy {} has no {}{}", cache.policy, parameter.key,
                           own.empty() ? fmt::format("; set {}_cache.policy first", owner) : own);
    };
    return entry;
}

/// A path is taken as it stands; none is an empty text.
ParameterEntry file_entry(std::string_view owner, Field field, const CacheFile& file) {
    ParameterEntry entry;
    Parameter& p = entry.parameter;
    p.key = keep(fmt::format("{}_cache.{}", owner, file.key));
    p.label = keep(fmt::format("{}'s {}", owner == "student" ? "Student" : "Teacher", file.label));
    p.help = file.help;
    p.kind = Kind::text;
    p.form = "a file, or nothing";
    p.live = false;
    entry.reads = [](std::string_view) { return true; };
    entry.get = [field, file](const RunConfig& config) -> std::optional<std::string> {
        const auto& files = (config.*field).files;
        const auto found = files.find(file.key);
        return found == files.end() ? std::nullopt : std::optional(found->second.path);
    };
    entry.set = [field, file](RunConfig& config, const ParameterValue& value) {
        (config.*field).files.find(file.key)->second = {std::string(value.text), {}};
    };
    entry.why_absent = [field, file](const RunConfig& config) {
        return fmt::format("cache policy {} has no {}", (config.*field).policy, file.key);
    };
    return entry;
}

/// Of several methods' entries of one key the first counts: they mean the same.
void add_once(std::vector<ParameterEntry>& table, size_t first, ParameterEntry entry) {
    const auto same = [&](const ParameterEntry& other) { return other.parameter.key == entry.parameter.key; };
    if (std::none_of(table.begin() + static_cast<int64_t>(first), table.end(), same))
        table.push_back(std::move(entry));
}

} // namespace

void add_cache_parameters(std::vector<ParameterEntry>& table) {
    for (const auto& [owner, field] : {std::pair{std::string_view("student"), &RunConfig::student_cache},
                                       std::pair{std::string_view("teacher"), &RunConfig::teacher_cache}}) {
        table.push_back(policy_entry(owner, field));
        const size_t first = table.size();
        for (const CacheMethod& method : cache_methods()) {
            for (const CacheParameter& parameter : method.parameters)
                add_once(table, first, value_entry(owner, field, parameter));
            for (const CacheFile& file : method.files)
                add_once(table, first, file_entry(owner, field, file));
        }
    }
}

} // namespace refreshlab
