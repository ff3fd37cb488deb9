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

/// From so many rows on, numbers are unpacked to fp32 once for all rows of a call. block_linear() cuts such calls so that their rows
/// stay in the second cache. Where a kernel changes its way does not show in its bits.
inline constexpr int64_t many_rows = 10;

/// Some blocks of a tile row, unpacked. As much as the first cache holds beside the rows that are multiplied with it.
struct alignas(64) BlockPanel {
    static constexpr int64_t blocks = 4;
    float number[blocks][block_width][block_rows];
    float scale[blocks][block_rows];
    float minimum[blocks][block_rows]; ///< q4_1 only
};

/// Many rows as kernels read them: without strides, which would put many of them into the same few lines of the first cache.
struct LaidOutRows {
    static constexpr int64_t x_stride = BlockPanel::blocks * block_width;
    static constexpr int64_t y_stride = 2 * block_rows;
    const float* x = nullptr; ///< [blocks of a row / BlockPanel::blocks, rounded up][rows][x_stride]
    float* y = nullptr;       ///< [rows][y_stride]: sums of up to two tile rows. Zero; kernels leave it so
    BlockPanel* panels = nullptr; ///< room for one of each
};
/// Copies the rows of x. All of it is 64-byte aligned. The memory is the calling thread's, until its next call.
[[nodiscard]] LaidOutRows lay_out_rows(const BlockDots& d);

/// Rows against a panel of each of one or two neighbouring tile rows.
struct PanelDots {
    const BlockPanel* panels = nullptr;
    int64_t blocks = 0; ///< of the panels: at most BlockPanel::blocks
    const float* x = nullptr;
    const float* sums = nullptr;
    int64_t sums_stride = 0;
    float* y = nullptr; ///< added to
};

/// The sums of some blocks' inputs; one fixed order.
void block_input_sums(const float* x, int64_t blocks, float* sums);

/// By the kernel set of the calling thread's context; `reference` has the portable one.
void block_dots(const BlockDots& d);
void block_dots_portable(const BlockDots& d);
void block_dots_avx2(const BlockDots& d);   ///< only where the processor has it (is_available)
void block_dots_avx512(const BlockDots& d); ///< the same bits

} // namespace refreshlab::kernels::cpu
