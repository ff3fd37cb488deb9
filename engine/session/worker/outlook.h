#pragma once

#include "engine/control/run_config.h"
#include "engine/control/run_outlook.h"
#include "engine/model/memory_estimate.h"

#include <memory>

namespace refreshlab {

struct ModelPair;

/// Everything that a start checks before it reads weights, and what the run would hold. Reads configurations and tokenizers:
/// milliseconds to seconds. Throws nothing.
/// \param loaded  the pair that is loaded now; may be null
[[nodiscard]] RunOutlook run_outlook(const RunConfig& config, std::shared_ptr<const ModelPair> loaded,
                                     const MemoryQuery& available);

} // namespace refreshlab
