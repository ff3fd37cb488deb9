#pragma once

#include "engine/record/recording/step_record.h"

#include <string>

namespace refreshlab::ui {

/// One log line for a command that the engine applied: "step 110: entropy.threshold = 5.2". A command that this version
/// does not know is shown as it stands. No ImGui in here.
[[nodiscard]] std::string describe(const CommandEvent& event);

} // namespace refreshlab::ui
