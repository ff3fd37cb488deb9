#pragma once

#include "engine/control/parameter_table.h"

#include <vector>

namespace refreshlab {

/// Adds student_cache.policy and teacher_cache.policy, and for every parameter of any cache policy a key of each. A configuration
/// has those of its own two policies.
void add_cache_parameters(std::vector<ParameterEntry>& table);

} // namespace refreshlab
