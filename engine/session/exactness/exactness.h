#pragma once

#include "engine/control/exactness.h"
#include "engine/session/pair/model_pair.h"
#include "engine/session/pair/run_execution.h"

#include <functional>

namespace refreshlab {

/// Compares the caches of a pair with recomputation, on this machine, device and dtype (reference/refresh.md, section
/// 9). With fixed weights and no eviction, caching reorders work and approximates nothing.
///
///   cached = naive            prompt, then `steps` greedy decode steps on a cache; after each step, K and V of every layer and
///                             the logits against one forward over the whole text
///   chunks of n = one prefill one, seven, 64 tokens at a time
///   splice = fresh prefill    the student's columns after a refresh against a teacher that reads the text in one pass
///   rewind = fresh run        a whole session, rewound across its refreshes and continued, bit for bit
///   memory formula            2 * layers * KV heads * head_dim * capacity * bytes against what the cache holds
///
/// A fault acts in the cached path of the first check only; it must then fail. Tolerances: fp32 1e-4 (1e-3 above 10^9
/// parameters), half precision 0.5, and the same arg max wherever the top two logits are more than 0.1 apart; copies bit for bit.
/// Steps and prompt lengths beyond the models' context are cut; the report's notes say which.
/// \param config    models' prompt, seed, raw_prompt; mode and policy are the check's own
/// \param progress   called with the report so far; return false to cancel (Error "cancelled")
/// \param execution  threads and kernel set of all that is checked; null: make_execution(config)
[[nodiscard]] ExactnessReport check_exactness(
    const std::shared_ptr<const ModelPair>& pair, const RunConfig& config, const ExactnessOptions& options,
    const std::function<bool(const ExactnessReport& so_far)>& progress = {}, Execution execution = {});

} // namespace refreshlab
