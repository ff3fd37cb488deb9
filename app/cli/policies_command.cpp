#include "app/base/output.h"
#include "app/cli/commands.h"
#include "engine/base/json_text.h"
#include "engine/control/parameters.h"
#include "engine/policies/cache_policy_config.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <string>

namespace refreshlab::app {

namespace {

using nlohmann::json;
using Kind = CacheParameter::Kind;

json value_of(const CacheParameter& parameter, double value) {
    if (parameter.kind == Kind::choice) return parameter.choices[static_cast<size_t>(value)];
    if (parameter.kind == Kind::boolean) return value != 0;
    if (parameter.kind == Kind::integer) return static_cast<int64_t>(value);
    return value;
}

std::string_view name_of(Kind kind) {
    switch (kind) {
    case Kind::integer:
        return "integer";
    case Kind::real:
        return "real";
    case Kind::boolean:
        return "boolean";
    case Kind::choice:
        return "choice";
    }
    return {};
}

json parameter_json(const CacheParameter& parameter) {
    json out = {{"key", parameter.key},
                {"label", parameter.label},
                {"unit", parameter.unit},
                {"help", parameter.help},
                {"kind", name_of(parameter.kind)},
                {"default", value_of(parameter, parameter.fallback)},
                {"live", parameter.live}};
    if (parameter.kind == Kind::choice) {
        out["choices"] = parameter.choices;
    } else if (parameter.kind != Kind::boolean) {
        out["min"] = value_of(parameter, parameter.min);
        out["max"] = value_of(parameter, parameter.max);
    }
    return out;
}

/// Keys of --set that the preset has, with what it gives them.
json preset_values(const Preset& preset) {
    RunConfig config;
    config.policy = preset_policy(preset.name);
    json values = json::object();
    for (const Parameter& parameter : parameters()) {
        if (!parameter.of_policy) continue;
        if (const auto value = parameter_value(config, parameter.key))
            values[std::string(parameter.key)] = *value;
    }
    return values;
}

json everything() {
    json out = {
        {"refresh_presets", json::array()}, {"signals", json::array()}, {"cache_policies", json::array()}};
    for (const Preset& preset : presets()) {
        out["refresh_presets"].push_back({{"name", preset.name},
                                          {"label", preset.label},
                                          {"description", preset.description},
                                          {"values", preset_values(preset)}});
    }
    for (const Signal& signal : signals()) {
        out["signals"].push_back({{"name", signal.name},
                                  {"label", signal.label},
                                  {"unit", signal.unit},
                                  {"description", signal.description},
                                  {"cost", signal.cost_hint},
                                  {"can_trigger", signal.letter != 0},
                                  {"layered", signal.layered}});
    }
    for (const CacheMethod& method : cache_methods()) {
        json entry = {{"name", method.name},
                      {"label", method.label},
                      {"family", method.family},
                      {"summary", method.summary},
                      {"cost", method.cost},
                      {"source", method.source},
                      {"given_text", method.given_text},
                      {"parameters", json::array()}};
        for (const CacheParameter& parameter : method.parameters)
            entry["parameters"].push_back(parameter_json(parameter));
        for (const CacheFile& file : method.files)
            entry["files"].push_back({{"key", file.key}, {"label", file.label}, {"help", file.help}});
        out["cache_policies"].push_back(std::move(entry));
    }
    return out;
}

std::string range_of(const CacheParameter& parameter) {
    if (parameter.kind == Kind::choice) return fmt::format("{}", fmt::join(parameter.choices, "|"));
    if (parameter.kind == Kind::boolean) return "true|false";
    return fmt::format("{}..{}", value_of(parameter, parameter.min).dump(),
                       value_of(parameter, parameter.max).dump());
}

void list_policies() {
    print("Refresh presets (--policy NAME; a file of your own: docs/reference/refresh-policies.md)\n");
    for (const Preset& preset : presets())
        print("  {:<18} {}\n", preset.name, preset.description);
    print("\nSignals (a trigger compares one of them)\n");
    for (const Signal& signal : signals()) {
        print("  {:<28} {}{} Cost: {}\n", signal.name, signal.description,
              signal.unit.empty() ? "" : fmt::format(" Unit: {}.", signal.unit), signal.cost_hint);
    }
    print(
        "\nCache policies (--student-cache NAME, --teacher-cache NAME; docs/reference/cache-policies.md)\n");
    std::string_view family;
    for (const CacheMethod& method : cache_methods()) {
        if (method.family != family) print(" {}\n", method.family);
        family = method.family;
        print("  {:<16} {} {}: {}.\n", method.name, method.summary, method.source, method.cost);
        for (const CacheParameter& parameter : method.parameters) {
            const json value = value_of(parameter, parameter.fallback);
            print("    {:<16} {}{} [{}, default {}{}]\n", parameter.key, parameter.help,
                  parameter.unit.empty() ? "" : fmt::format(" Unit: {}", parameter.unit), range_of(parameter),
                  value.is_string() ? value.get<std::string>() : value.dump(),
                  parameter.live ? ", live" : "");
        }
        for (const CacheFile& file : method.files)
            print("    {:<16} {} [a file]\n", file.key, file.help);
    }
}

} // namespace

Command add_policies_command(CLI::App& app) {
    auto as_json = std::make_shared<bool>(false);
    CLI::App* command = app.add_subcommand(
        "policies",
        "Lists refresh presets, signals and cache policies with parameters, ranges, defaults, cost, source");
    command->add_flag("--json", *as_json, "As JSON on stdout");
    return [as_json] {
        if (*as_json) {
            print("{}\n", json_text(everything(), 2));
        } else {
            list_policies();
        }
        return 0;
    };
}

} // namespace refreshlab::app
