#pragma once

#include "engine/model/forward.h"

#include <cstdint>
#include <optional>
#include <span>

namespace refreshlab {

class KvCache;
class LlamaModel;
class PolicyRunner;

/// Reads a prompt once for several policies. Column sums, of which a pass has room for one, are shared by those that want them.
/// \param cache    empty and dense; holds the whole prompt afterwards
/// \param runners  finish_prompt() is the caller's, on a cache of each; none has a prompt_band, which would be in everybody's cache (asserted)
/// \param ask      of the last token's row
StepOutputs read_shared_prompt(const LlamaModel& model, std::span<const int32_t> tokens, KvCache& cache,
                               std::span<PolicyRunner* const> runners,
                               const std::optional<kernels::RowAsk>& ask = {});

} // namespace refreshlab
