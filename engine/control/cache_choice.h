#pragma once

#include "engine/control/run_config.h"

#include <cstdint>
#include <string>

namespace refreshlab {

/// What a run's cache policies depend on besides its configuration.
struct CacheFacts {
    int64_t context =
        0; ///< positions that all models have; 0 = not known, and budgets are not compared with it
    std::string geometry_difference; ///< in what the KV geometries of the pair differ; empty: in nothing
    bool given = false;              ///< the text is given
};

/// Throws Error{bad_input} where the cache policies of a configuration cannot act: in its mode, with these models, on this text.
void check_cache_choice(const RunConfig& config, const CacheFacts& facts);

/// The policy of the model that decodes: the only one that acts.
[[nodiscard]] const CachePolicyConfig& deciding_cache(const RunConfig& config);

/// It selects for every query head alone (parameter compat_per_query_head): the models have a KV head for each of them then.
[[nodiscard]] bool selects_per_query_head(const CachePolicyConfig& policy);

} // namespace refreshlab
