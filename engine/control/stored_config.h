#pragma once

#include "engine/control/run_config.h"

#include <nlohmann/json_fwd.hpp>

namespace refreshlab {

/// to_json() with the keys of the first version, which traces and the ids of sweep runs keep: mc.every is "stride" there.
/// So earlier programs read new traces, and a sweep finds the runs that they made. run_config_from_json() reads both.
[[nodiscard]] nlohmann::json stored_json(const RunConfig& config);

} // namespace refreshlab
