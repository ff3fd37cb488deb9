#pragma once

#include "engine/control/run_config.h"

#include <filesystem>

namespace refreshlab::app {

/// The folder of models, prompts, fonts and themes: $REFRESHLAB_ASSETS, else beside the program, else where it was built.
/// Throws Error{failure} saying where was looked.
[[nodiscard]] std::filesystem::path find_assets();

/// The same, or an empty path where there is none: for what is welcome and not needed.
[[nodiscard]] std::filesystem::path assets_if_any();

/// Bundled pair, chronicle prompt, entropy gate at 6 bits with redraw: what the window starts with
/// (reference/refresh.md, section 12).
[[nodiscard]] RunConfig first_start_config(const std::filesystem::path& assets);

} // namespace refreshlab::app
