#include "kernels/blocks/device_blocks.h"

#include "kernels/blocks/block_kernels.h"
#include "kernels/blocks/blocks.h"
#include "kernels/execution/thread_pool.h"

#include <ATen/ATen.h>

#include <cstring>

namespace refreshlab::kernels {
namespace {

using cpu::tile_bytes;
using cpu::tile_head_bytes;

constexpr int64_t numbers_bytes(BlockType type) {
    return block_rows * block_width / (type == BlockType::q8_0 ? 1 : 2);
}

/// Scales of a row within a tile: [16] and [16] minima on the CPU, pairs on a device.
void copy_scales(BlockType type, int64_t row, const std::byte* from, std::byte* to, bool to_device) {
    if (type != BlockType::q4_1) {
        std::memcpy(to + 2 * row, from + 2 * row, 2);
        return;
    }
    for (int64_t part = 0; part < 2; ++part) {
        const int64_t apart = 2 * (part * block_rows + row), paired = 2 * (2 * row + part);
        std::memcpy(to + (to_device ? paired : apart), from + (to_device ? apart : paired), 2);
    }
}

/// Where the 16 numbers from `first` on of a row stand in a device's tile of q8_0.
constexpr int64_t bytes_at(int64_t first, int64_t row) {
    return first / 16 * (block_rows * 16) + row * 16;
}

constexpr auto sign = std::byte{0x80}; // q + 128

/// A word of the CPU's has number k in bits 4 k; one of a device's has numbers 0 to 3 in the lower halves of its bytes.
uint32_t to_device_word(uint32_t word) {
    uint32_t result = 0;
    for (uint32_t k = 0; k < 8; ++k)
        result |= (word >> (4 * k) & 15U) << (8 * (k % 4) + k / 4 * 4);
    return result;
}
uint32_t to_host_word(uint32_t word) {
    uint32_t result = 0;
    for (uint32_t k = 0; k < 8; ++k)
        result |= (word >> (8 * (k % 4) + k / 4 * 4) & 15U) << (4 * k);
    return result;
}

constexpr int64_t words = block_width / 8; // of four bits, of a row

void to_device_tile(BlockType type, const std::byte* from, std::byte* to) {
    const std::byte* const numbers = from + tile_head_bytes(type);
    for (int64_t row = 0; row < block_rows; ++row) {
        copy_scales(type, row, from, to + numbers_bytes(type), true);
        if (type == BlockType::q8_0) {
            for (int64_t k = 0; k < block_width; ++k)
                to[bytes_at(k, row) + k % 16] = numbers[block_rows * k + row] ^ sign;
            continue;
        }
        for (int64_t w = 0; w < words; ++w) {
            uint32_t word = 0;
            std::memcpy(&word, numbers + 4 * (block_rows * w + row), 4);
            word = to_device_word(word);
            std::memcpy(to + row * 16 + 4 * w, &word, 4);
        }
    }
}

void to_host_tile(BlockType type, const std::byte* from, std::byte* to) {
    std::byte* const numbers = to + tile_head_bytes(type);
    for (int64_t row = 0; row < block_rows; ++row) {
        copy_scales(type, row, from + numbers_bytes(type), to, false);
        if (type == BlockType::q8_0) {
            for (int64_t k = 0; k < block_width; ++k)
                numbers[block_rows * k + row] = from[bytes_at(k, row) + k % 16] ^ sign;
            continue;
        }
        for (int64_t w = 0; w < words; ++w) {
            uint32_t word = 0;
            std::memcpy(&word, from + row * 16 + 4 * w, 4);
            word = to_host_word(word);
            std::memcpy(numbers + 4 * (block_rows * w + row), &word, 4);
        }
    }
}

template <typename Tile>
void for_tiles(BlockType type, int64_t tiles, const std::byte* from, std::byte* to, const Tile& tile) {
    constexpr int64_t grain = 256; // 128 thousand numbers
    parallel_for(tiles, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin * tile_bytes(type); i < end * tile_bytes(type); i += tile_bytes(type))
            tile(type, from + i, to + i);
    });
}

} // namespace

void to_device_tiles(BlockType type, int64_t tiles, const std::byte* from, std::byte* to) {
    for_tiles(type, tiles, from, to, to_device_tile);
}
void to_host_tiles(BlockType type, int64_t tiles, const std::byte* from, std::byte* to) {
    for_tiles(type, tiles, from, to, to_host_tile);
}

at::Tensor blocks_on(const at::Tensor& packed, at::Device device) {
    if (packed.is_cpu() == device.is_cpu()) return packed.to(device);
    const bool to_device = packed.is_cpu();
    const at::Tensor from = packed.to(at::kCPU);
    const at::Tensor to = at::empty_like(from);
    const BlockShape shape = block_shape(from);
    (to_device ? to_device_tiles : to_host_tiles)(shape.type, from.size(0) * from.size(1),
                                                  static_cast<const std::byte*>(from.const_data_ptr()),
                                                  static_cast<std::byte*>(to.mutable_data_ptr()));
    return to.to(device);
}

} // namespace refreshlab::kernels
