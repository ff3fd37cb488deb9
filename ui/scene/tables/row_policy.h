#pragma once

#include "engine/policies/cache_policy_config.h"
#include "engine/record/tables/data_table.h"
#include "ui/scene/policy/cache_words.h"

#include <cstddef>
#include <optional>
#include <string>

namespace refreshlab::ui {

/// The cache policy that a row of a table is about, as far as its cells say.
struct RowPolicy {
    CachePolicyConfig config;    ///< what the row does not say has the method's default
    std::optional<double> share; ///< the budget, as a part of the text or prompt: "n/8"
    bool budget_said = false;    ///< by the row, as a number of entries or as a share
    /// As a run with this reach has it: a share becomes entries, and a budget that the row does not say is that of chosen_cache().
    [[nodiscard]] CachePolicyConfig in(const RunReach& reach) const;
};

/// Where a row stands with cache policies.
struct RowReading {
    std::optional<RowPolicy> policy; ///< nothing: it names none, or one that cannot be read
    std::string problem;             ///< why it cannot be read, one line; empty: it names none
};

/// Reads the row's policy. It stands in a column named "cache policy", "policy", "method", "config" or "cache" (capitals, _ and spaces
/// do not matter): as JSON ({"policy": "h2o", "budget": 64}), or as the method's name or label, with settings behind it ("H2O, budget 64").
/// Columns named like a parameter or a file of the method, by key or label, set it.
[[nodiscard]] RowReading read_policy(const DataTable& table, size_t row);

} // namespace refreshlab::ui
