#pragma once

#include "engine/policies/cache_policy_config.h"

#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab {

/// A cache policy with the name that it has in tables.
struct NamedPolicy {
    std::string name;
    CachePolicyConfig config;
};

/// The rows of RefreshKV's comparison (reference/cache-definitions.md, section 7), with random beside them, and others of one budget.
[[nodiscard]] std::vector<NamedPolicy> compared_policies(int64_t budget);
/// Those of them that a table of tasks has room for.
[[nodiscard]] std::vector<NamedPolicy> few_policies(int64_t budget);
/// ... of texts that the model writes itself: the oracle is asked of a given one alone.
[[nodiscard]] std::vector<NamedPolicy> writing_policies(int64_t budget);

} // namespace refreshlab
