#pragma once

#include "engine/control/run_config.h"

#include <filesystem>

namespace refreshlab::app {

/// The folder of models, prompts, fonts and themes: $REFRESHLAB_ASSETS, else beside the program, else where it was built.
/// Throws Error{failure} saying where was looked.
[[nodiscard]] std::filesystem::path find_assets();

/// Bundled pair, chronicle prompt, entropy gate at 6 bits with redraw: what the window starts with
/// (reference/refresh.md, section 12).
[[nodiscard]] RunConfig first_start_config(const std::filesystem::path& assets);

} // namespace refreshlab::app
