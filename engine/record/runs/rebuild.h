#pragma once

#include "engine/control/command.h"
#include "engine/record/recording/recording.h"

#include <cstdint>
#include <string>

namespace refreshlab {

/// What makes a recorded run the engine's again, up to `steps`: its configuration, ids and log. The settings that were made after its
/// last step come along where that is the last step.
/// \param steps  0 <= steps <= newest_reached() (asserted)
/// Throws Error{bad_input} where a trace's log has a command that this version does not know.
[[nodiscard]] command::RecordedRun rebuild_of(const Recording& recording, int64_t steps);

/// The newest step whose state can be gone back to: the last record of a run that made all its tokens has none.
[[nodiscard]] int64_t newest_reached(const Recording& recording);

/// Why a run cannot simply go on from where it ended, for a person; empty where it can.
[[nodiscard]] std::string why_at_its_end(const Recording& recording);

} // namespace refreshlab
