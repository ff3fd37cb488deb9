#pragma once

#include "engine/control/run_config.h"
#include "engine/model/forward.h"

#include <cstdint>

namespace refreshlab {

struct ModelConfig;

/// The MC rows of a step as a run's configuration and its model ask for them: a rate that was not given is the one the model was
/// trained with, or 0.1; branches get dropout where training gave it to them (reference/refresh.md, 6.3).
[[nodiscard]] McRequest mc_request(const McConfig& mc, uint64_t seed, const ModelConfig& model);

} // namespace refreshlab
