#include "ui/shell/engine_log.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/control/command.h"

#include <fmt/format.h>

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
        return fmt::format("{} = {}", c.key, c.value);
    }
    std::string operator()(const command::SetPolicy& c) const {
        return fmt::format("policy {}", c.policy.name);
    }
    std::string operator()(const command::RequestAttention& c) const {
        return fmt::format("attention of position {} asked for", c.position);
    }
    std::string operator()(const command::CheckExactness& c) const {
        return c.options.fault == CacheFault::none
                   ? std::string("exactness checked")
                   : fmt::format("exactness checked with fault {}", to_string(c.options.fault));
    }
};

} // namespace

std::string describe(const CommandEvent& event) {
    std::string what = event.json;
    try {
        what = std::visit(Describe{}, command_from_json(parse_json(event.json, "a command"), "a command"));
    } catch (const Error&) {
        // A trace of another version: its own words are better than none.
    }
    return fmt::format("step {}: {}", event.step, what);
}

} // namespace refreshlab::ui
