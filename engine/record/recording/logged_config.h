#pragma once

#include "engine/control/command.h"
#include "engine/control/run_config.h"
#include "engine/record/recording/step_record.h"

#include <optional>

namespace refreshlab {

class Recording;

// What the commands that a recording has logged did to its configuration.

/// The command of an entry; nothing where this version does not know it.
[[nodiscard]] std::optional<Command> logged_command(const CommandEvent& event);
/// Applies it. A command that this version does not know, or refuses, changes nothing: the entry is of a trace of another version.
void obey(RunConfig& config, const CommandEvent& event);

/// The configuration in force after the recording's last step: the one it started with, with the logged commands applied.
[[nodiscard]] RunConfig last_config(const Recording& recording);

} // namespace refreshlab
