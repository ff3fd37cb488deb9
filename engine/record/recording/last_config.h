#pragma once

#include "engine/control/run_config.h"

namespace refreshlab {

class Recording;

/// The configuration in force after the recording's last step: the one it started with, with the logged commands
/// applied.
[[nodiscard]] RunConfig last_config(const Recording& recording);

} // namespace refreshlab
