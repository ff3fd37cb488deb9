#pragma once

#include "engine/record/recording/recording.h"
#include "engine/session/pair/model_pair.h"

#include <memory>

namespace refreshlab {

/// Runs a trace again from its configuration and command log, as far as it was recorded. Throws Error if the models are
/// missing.
/// \param execution  null: make_execution() of the recorded configuration
[[nodiscard]] std::shared_ptr<Recording>
replay(const Recording& recorded, std::shared_ptr<const ModelPair> pair, Execution execution = {});

} // namespace refreshlab
