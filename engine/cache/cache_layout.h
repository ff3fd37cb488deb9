#pragma once

#include <cstdint>

namespace refreshlab {

/// How a cache stores its entries.
enum class CacheLayout : uint8_t {
    dense,  ///< every position, in the column of its number: what a model needs whose entries all stay
    pooled, ///< each KV head of each layer holds a set of positions of its own, in slots of one pool per layer
    coded,  ///< as pooled, and keys or values of an entry may be stored in a shorter form
};

} // namespace refreshlab
