#pragma once

#include "engine/control/run_config.h"
#include "engine/record/recording/recording.h"
#include "engine/session/pair/model_pair.h"

#include <memory>
#include <string>
#include <vector>

/// Sessions that are the same on every device, and how they are compared.
namespace refreshlab::test {

/// Teacher-forced, so that rounding cannot send two runs different ways; every trigger fires whenever it may look.
[[nodiscard]] RunConfig reading(const RefreshPolicy& policy);
/// Every action of a refresh, windowed and not, with each kind of trigger; and one that lags.
[[nodiscard]] std::vector<RefreshPolicy> reading_policies();
/// A run to its end, with the closing pass.
[[nodiscard]] std::shared_ptr<Recording> whole_run(const std::shared_ptr<const ModelPair>& pair,
                                                   const RunConfig& config);
/// What differs beyond rounding (fp32 on both sides, sums in another order), in one line; empty: nothing.
[[nodiscard]] std::string difference(const Recording& a, const Recording& b);

} // namespace refreshlab::test
