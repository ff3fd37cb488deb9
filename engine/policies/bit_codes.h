#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace refreshlab {

/// Codes of up to 8 bits one after the other, lowest bit first.
[[nodiscard]] inline size_t bytes_of_codes(int64_t n, int64_t bits) {
    return static_cast<size_t>((n * bits + 7) / 8);
}
/// \param bytes  0 where the code goes
inline void put_code(std::span<uint8_t> bytes, int64_t index, int64_t bits, uint32_t code) {
    const auto bit = static_cast<size_t>(index * bits);
    const uint32_t moved = code << (bit % 8); // in two bytes at most
    bytes[bit / 8] |= static_cast<uint8_t>(moved);
    if (moved > 255) bytes[bit / 8 + 1] |= static_cast<uint8_t>(moved >> 8);
}
/// The code that begins at a bit.
[[nodiscard]] inline uint32_t code_at_bit(std::span<const uint8_t> bytes, int64_t first_bit, int64_t bits) {
    const auto bit = static_cast<size_t>(first_bit);
    uint32_t two = bytes[bit / 8];
    if (bit / 8 + 1 < bytes.size()) two |= static_cast<uint32_t>(bytes[bit / 8 + 1]) << 8;
    return two >> (bit % 8) & ((1U << bits) - 1);
}
[[nodiscard]] inline uint32_t code_at(std::span<const uint8_t> bytes, int64_t index, int64_t bits) {
    return code_at_bit(bytes, index * bits, bits);
}

} // namespace refreshlab
