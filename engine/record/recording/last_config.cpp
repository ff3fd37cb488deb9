#include "engine/record/recording/last_config.h"

#include "engine/control/command.h"
#include "engine/control/parameters.h"
#include "engine/record/recording/recording.h"

#include <nlohmann/json.hpp>

namespace refreshlab {

RunConfig last_config(const Recording& recording) {
    RunConfig config = recording.info().config;
    for (size_t i = 0; i < recording.commands().size(); ++i) {
        const Command c = command_from_json(nlohmann::json::parse(recording.commands()[i].json),
                                            "the recording's commands");
        if (const auto* set = std::get_if<command::SetParameter>(&c))
            set_parameter(config, set->key, set->value);
        if (const auto* policy = std::get_if<command::SetPolicy>(&c)) config.policy = policy->policy;
    }
    return config;
}

} // namespace refreshlab
