#pragma once

#include "kernels/blocks/block_types.h"

#include <cstddef>
#include <cstdint>

/// The single-threaded inner loops under block_linear(), one for each instruction set.
///
/// Order of sums, the same for every caller and every blocking. Within a block chain c of four adds the inputs c, c + 4,
/// c + 8, ... ascending, times the numbers q; s = (c0 + c1) + (c2 + c3). An output adds d * s of its blocks, ascending, and after each
/// (q4_1) m times the sum of the block's inputs. Then the bias.
namespace refreshlab::kernels::cpu {

/// y[r, o] for the outputs of some tiles.
struct BlockDots {
    BlockType type = BlockType::q8_0;
    const float* x = nullptr;
    int64_t x_stride = 0; ///< elements between rows of x
    int64_t rows = 0;
    const float* sums = nullptr; ///< [rows, in / 32]: of each block's inputs; q4_1 only
    const std::byte* tiles = nullptr;
    int64_t outs = 0; ///< a multiple of 16
    int64_t in = 0;   ///< a multiple of 32
    const float* bias = nullptr;
    float* y = nullptr;
    int64_t y_stride = 0;
};

[[nodiscard]] constexpr int64_t tile_bytes(BlockType type) {
    return block_rows * stored_block_bytes(type);
}
/// Bytes of a tile before its numbers.
[[nodiscard]] constexpr int64_t tile_head_bytes(BlockType type) {
    return type == BlockType::q4_1 ? 64 : 32;
}

void block_dots_portable(const BlockDots& d);
void block_dots_avx2(const BlockDots& d);   ///< only where the processor has it (is_available)
void block_dots_avx512(const BlockDots& d); ///< the same bits

} // namespace refreshlab::kernels::cpu
