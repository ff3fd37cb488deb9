#include "engine/record/recording/last_config.h"

#include "engine/control/command.h"
#include "engine/record/recording/recording.h"

#include <nlohmann/json.hpp>

namespace refreshlab {

RunConfig last_config(const Recording& recording) {
    RunConfig config = recording.info().config;
    for (size_t i = 0; i < recording.commands().size(); ++i)
        apply_to(config, command_from_json(nlohmann::json::parse(recording.commands()[i].json),
                                           "the recording's commands"));
    return config;
}

} // namespace refreshlab
