#pragma once

#include <cstddef>
#include <cstdint>

namespace refreshlab {

/// The linear maps of a decoder block.
enum class Projection : uint8_t { q, k, v, o, gate, up, down };
inline constexpr size_t num_projections = 7;

} // namespace refreshlab
