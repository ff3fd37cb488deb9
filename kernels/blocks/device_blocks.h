#pragma once

#include "kernels/blocks/block_types.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>

/// Matrices in blocks (blocks.h) as a device's kernels read them. A block keeps its bytes, a tile its place and its length, so a weight
/// takes what it takes in a file: q8_0 1.0625 bytes, q4_0 0.5625, q4_1 0.625. What differs from the CPU's layout is the order within a tile.
///
/// Tile    the blocks of 16 rows, first the numbers, then the scales; all of it 16 bytes aligned.
///         q4_0, q4_1  16 bytes of each row after the other: byte 4 w + i holds number 8 w + i in its lower half, 8 w + 4 + i in its upper half
///         q8_0        16 bytes of each row, which are its first 16 numbers, then the 16 bytes of the others; a number is stored plus 128
///         scales      16 fp16; q4_1: scale and minimum of each row, side by side
/// Reads   16 lanes of a warp read the 256 bytes of 16 rows side by side, the other 16 those of the tile behind (q8_0: of the same). A row of
///         tiles is one stream. A tensor core's lane finds the 8 inputs of a row that it multiplies in 4 (q8_0: 8) bytes.
namespace refreshlab::kernels {

/// One layout into the other. \param tiles  of them; `from` and `to` do not overlap
void to_device_tiles(BlockType type, int64_t tiles, const std::byte* from, std::byte* to);
void to_host_tiles(BlockType type, int64_t tiles, const std::byte* from, std::byte* to);

/// A matrix in blocks on `device`, in the layout of where it stands: the CPU's there, the one above everywhere else. The tensor itself where it
/// is there already. Repacked on the host: at its peak a copy of the matrix beside it.
[[nodiscard]] at::Tensor blocks_on(const at::Tensor& packed, at::Device device);

} // namespace refreshlab::kernels
