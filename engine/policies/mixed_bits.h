#pragma once

#include <cstdint>

namespace refreshlab {

/// 64 well mixed bits (Steele, Lea, Flood 2014: SplitMix64). A policy draws by a key of what is drawn for, so a draw is the same
/// whatever came before it.
[[nodiscard]] constexpr uint64_t mixed_bits(uint64_t x) {
    x += 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
}
/// In [0, 1), of 24 bits: exact in a float.
[[nodiscard]] constexpr float unit_number(uint64_t bits) {
    return static_cast<float>(bits >> 40) / 16777216.0F;
}

} // namespace refreshlab
