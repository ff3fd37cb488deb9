#pragma once

#include "engine/model/model_config.h"

#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab {

/// `layers` layers of a Llama of one billion weights (hidden 2048, 32 query heads, 8 KV heads of 64, MLP 8192) over a small vocabulary:
/// the head would cost the same under every policy.
[[nodiscard]] ModelConfig one_billion_shape(int64_t layers);

/// What policy_cost() measures: weights are random, fp32, on the CPU.
struct PolicyCostInputs {
    ModelConfig shape = one_billion_shape(2);
    std::vector<int64_t> entries = {2048, 8192}; ///< tokens of the prompt
    std::vector<std::string> policies;           ///< methods of the registry; empty: all of them
    int64_t share = 8;                           ///< budgets are entries / share
    int64_t steps = 16;  ///< timed, after 8 that are not; before each a step that reads everything
    double seconds = 60; ///< after so many a row has no further step, but at least one
    uint64_t seed = 0;
};

/// One policy at one length.
struct PolicyCostRow {
    std::string policy;
    int64_t entries = 0, budget = 0, steps = 0; ///< steps: timed
    // --- milliseconds of a step ---
    double step_ms = 0, step_low_ms = 0, step_high_ms = 0; ///< median and quartiles
    double step_mean_ms = 0; ///< where some steps cost more than others: RefreshKV's full steps, evictions
    double full_step_ms = 0; ///< median of the steps between them that read everything
    double attention_ms = 0, full_attention_ms = 0; ///< of it in attention, medians
    // --- the cache after the last step ---
    double entries_held = 0, entries_read = 0; ///< mean over layers and KV heads; read: by the last step
    int64_t cache_bytes = 0;                   ///< keys and values as they are stored, metadata included
    int64_t metadata_bytes = 0;                ///< scales, channel masks; part of cache_bytes
    int64_t index_bytes = 0;                   ///< what says where an entry stands
    int64_t scratch_bytes = 0;                 ///< while a layer or a step runs: decoded, or computed again
};

/// A row for each length and policy, in the order of the inputs; full is measured against itself. Defaults of the methods but for the
/// budget, and: intervals of 8 steps, RefreshKV with a full step every 10 (the similarity of random queries means nothing), Quest
/// without dense layers (of two layers both would be).
/// Throws Error{bad_input}: an unknown method, lengths below 16 or beyond the shape's context.
/// Threads  one, under the ExecutionScope of the caller; nothing else should run. Bytes are exact, times are this machine's.
[[nodiscard]] std::vector<PolicyCostRow> policy_cost(const PolicyCostInputs& inputs);

} // namespace refreshlab
