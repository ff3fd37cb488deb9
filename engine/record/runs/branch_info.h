#pragma once

#include "engine/record/recording/recording.h"

namespace refreshlab {

/// Gives a branch what it has of its own: settings (more tokens than the run that it left), machine, start. All else is its parent's,
/// and its id the caller's. \param branch  its parent's
void set_own_info(RunInfo& branch, RunInfo own);

} // namespace refreshlab
