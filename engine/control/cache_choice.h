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

} // namespace refreshlab
