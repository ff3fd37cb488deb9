#pragma once

#include "engine/results/scope_map.h"
#include "engine/study/studies/study_table.h"

#include <nlohmann/json_fwd.hpp>

namespace refreshlab {

/// A scope map as tables: keys against values, layers, the smallest scopes that keep 50, 80 and 95 % of the gain; KV heads, blocks of positions,
/// halves of layers, the greedy curve, and the refreshes as data of figures. Shares are of what the whole refreshes gain, with 95 % intervals over
/// refreshes where there are five at least.
[[nodiscard]] StudyResult scope_tables(const ScopeMap& map);
/// All losses, as they were read.
[[nodiscard]] nlohmann::json to_json(const ScopeMap& map);

} // namespace refreshlab
