#include "ui/scene/policy/command_words.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/control/command.h"
#include "engine/control/parameters.h"

#include <fmt/format.h>

#include <variant>

namespace refreshlab::ui {

namespace {

struct Describe {
    std::string operator()(const command::StartRun& c) const {
        return fmt::format("run started, seed {}", c.config.seed);
    }
    std::string operator()(const command::Pause&) const { return "paused"; }
    std::string operator()(const command::Resume&) const { return "resumed"; }
    std::string operator()(const command::Step& c) const {
        return fmt::format("{} steps asked for", c.steps);
    }
    std::string operator()(const command::Stop&) const { return "stopped"; }
    std::string operator()(const command::RefreshNow&) const { return "refresh by hand"; }
    std::string operator()(const command::Rewind& c) const {
        return fmt::format("rewound to step {}", c.step);
    }
    std::string operator()(const command::SetParameter& c) const {
        const Parameter* parameter = find_parameter(c.key);
        if (parameter == nullptr) return fmt::format("{}: {}", c.key, c.value);
        const bool with_unit = !parameter->unit.empty() && c.value != "none";
        return fmt::format("{}: {}{}{}", parameter->label, c.value, with_unit ? " " : "",
                           with_unit ? parameter->unit : "");
    }
    std::string operator()(const command::SetPolicy& c) const {
        return fmt::format("policy {}", c.policy.name);
    }
    std::string operator()(const command::RequestAttention& c) const {
        return fmt::format("attention of position {} asked for", c.position);
    }
    std::string operator()(const command::SetPace& c) const {
        return fmt::format("pace: {:g} tokens a second", c.tokens_per_second);
    }
    std::string operator()(const command::CheckExactness& c) const {
        return c.options.fault == CacheFault::none
                   ? std::string("exactness checked")
                   : fmt::format("exactness checked with fault {}", to_string(c.options.fault));
    }
};

} // namespace

std::string command_words(const CommandEvent& event) {
    try {
        return std::visit(Describe{}, command_from_json(parse_json(event.json, "a command"), "a command"));
    } catch (const Error&) {
        return event.json; // a trace of another version: its own words are better than none
    }
}

std::string describe(const CommandEvent& event) {
    return fmt::format("step {}: {}", event.step, command_words(event));
}

std::string set_key(const CommandEvent& event) {
    try {
        const Command c = command_from_json(parse_json(event.json, "a command"), "a command");
        if (const auto* set = std::get_if<command::SetParameter>(&c)) return set->key;
    } catch (const Error&) {
        return {};
    }
    return {};
}

} // namespace refreshlab::ui
