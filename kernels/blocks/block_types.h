#pragma once

#include <cstdint>

namespace refreshlab::kernels {

enum class BlockType {
    q8_0, ///< 32 numbers d * q, q in -128..127
    q4_0, ///< d * (q - 8), q in 0..15
    q4_1, ///< d * q + m
};

inline constexpr int64_t block_rows = 16;  ///< of a tile
inline constexpr int64_t block_width = 32; ///< inputs of a block

/// Bytes of one row's block in a GGUF file: scale, minimum, numbers.
[[nodiscard]] constexpr int64_t stored_block_bytes(BlockType type) {
    return type == BlockType::q8_0 ? 34 : type == BlockType::q4_0 ? 18 : 20;
}
/// Whether a matrix of this shape can be packed: out a multiple of 16, in one of 32.
[[nodiscard]] constexpr bool can_pack_blocks(int64_t out, int64_t in) {
    return out > 0 && in > 0 && out % block_rows == 0 && in % block_width == 0;
}

} // namespace refreshlab::kernels
