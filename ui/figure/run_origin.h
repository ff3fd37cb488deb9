#pragma once

#include "engine/record/recording/recording.h"

#include <nlohmann/json_fwd.hpp>

namespace refreshlab::ui {

/// Where a picture or a figure comes from: id, parent, steps, seed, mode, policy at the start and the commands since, models,
/// derivation, device, dtype, prompt, date, versions. Enough to make it again.
[[nodiscard]] nlohmann::json run_origin(const Recording& recording);

} // namespace refreshlab::ui
