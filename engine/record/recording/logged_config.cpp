#include "engine/record/recording/logged_config.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/record/recording/recording.h"

namespace refreshlab {

std::optional<Command> logged_command(const CommandEvent& event) {
    try {
        return command_from_json(parse_json(event.json, "a command"), "a command");
    } catch (const Error&) {
        return std::nullopt;
    }
}

void obey(RunConfig& config, const CommandEvent& event) {
    const auto command = logged_command(event);
    if (!command) return;
    try {
        apply_to(config, *command);
    } catch (const Error&) { // a value that this version refuses
    }
}

RunConfig last_config(const Recording& recording) {
    RunConfig config = recording.info().config;
    for (size_t i = 0, n = recording.commands().size(); i < n; ++i)
        obey(config, recording.commands()[i]);
    return config;
}

} // namespace refreshlab
