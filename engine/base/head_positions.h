#pragma once

#include <cstdint>
#include <vector>

namespace refreshlab {

/// Absolute positions of the KV heads of one layer, [kv_heads], ascending.
using HeadPositions = std::vector<std::vector<int64_t>>;

} // namespace refreshlab
