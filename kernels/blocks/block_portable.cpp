#include "kernels/blocks/block_kernels.h"
#include "kernels/cpu/half.h"

#include <algorithm>
#include <cstring>
#include <vector>

/// Plain C++: loops over the 16 rows of a tile, which a compiler turns into vector code. A block's numbers are widened once for all
/// rows of x. No fused multiply-add.
namespace refreshlab::kernels::cpu {
namespace {

float half_at(const std::byte* p, int64_t i) {
    F16 h{};
    std::memcpy(&h.bits, p + 2 * i, sizeof(h.bits));
    return to_float(h);
}

/// The numbers of a tile, [32][16].
void widen(BlockType type, const std::byte* tile, float (&numbers)[block_width][block_rows]) {
    const std::byte* const from = tile + tile_head_bytes(type);
    for (int64_t k = 0; k < block_width; ++k) {
        for (int64_t row = 0; row < block_rows; ++row) {
            if (type == BlockType::q8_0) {
                numbers[k][row] = static_cast<float>(static_cast<int8_t>(from[block_rows * k + row]));
                continue;
            }
            uint32_t word = 0;
            std::memcpy(&word, from + 4 * (block_rows * (k / 8) + row), sizeof(word));
            const auto q = static_cast<int>((word >> (4 * (k % 8))) & 15U);
            numbers[k][row] = static_cast<float>(type == BlockType::q4_0 ? q - 8 : q);
        }
    }
}

} // namespace

LaidOutRows lay_out_rows(const BlockDots& d) {
    struct alignas(64) Line {
        float number[16];
    };
    static thread_local std::vector<Line> memory;
    constexpr int64_t x_stride = LaidOutRows::x_stride, y_stride = LaidOutRows::y_stride, line = 16;
    constexpr int64_t panel_lines = 2 * sizeof(BlockPanel) / sizeof(Line);
    const int64_t chunks = (d.in + x_stride - 1) / x_stride;
    memory.resize(static_cast<size_t>(panel_lines + d.rows * (chunks * x_stride + y_stride) / line));
    auto* const panels = reinterpret_cast<BlockPanel*>(memory.data());
    float* const y = memory[panel_lines].number;
    float* const x = y + d.rows * y_stride;
    std::fill(y, x, 0.0F);
    for (int64_t r = 0; r < d.rows; ++r) {
        for (int64_t c = 0; c < chunks; ++c) {
            const int64_t count = std::min(x_stride, d.in - c * x_stride);
            std::copy_n(d.x + r * d.x_stride + c * x_stride, count, x + (c * d.rows + r) * x_stride);
        }
    }
    return {x, y, panels};
}

void block_input_sums(const float* x, int64_t blocks, float* sums) {
    for (int64_t b = 0; b < blocks; ++b, x += block_width) {
        float lane[16], a[8], c[4];
        for (int64_t l = 0; l < 16; ++l)
            lane[l] = x[l] + x[l + 16];
        for (int64_t l = 0; l < 8; ++l)
            a[l] = lane[l] + lane[l + 8];
        for (int64_t l = 0; l < 4; ++l)
            c[l] = a[l] + a[l + 4];
        sums[b] = (c[0] + c[2]) + (c[1] + c[3]);
    }
}

void block_dots_portable(const BlockDots& d) {
    const int64_t blocks = d.in / block_width;
    float numbers[block_width][block_rows];
    for (int64_t out = 0; out < d.outs; out += block_rows) {
        const std::byte* tile = d.tiles + out / block_rows * blocks * tile_bytes(d.type);
        for (int64_t r = 0; r < d.rows; ++r)
            std::fill_n(d.y + r * d.y_stride + out, block_rows, 0.0F);
        for (int64_t b = 0; b < blocks; ++b, tile += tile_bytes(d.type)) {
            widen(d.type, tile, numbers);
            float scale[block_rows], minimum[block_rows];
            for (int64_t row = 0; row < block_rows; ++row) {
                scale[row] = half_at(tile, row);
                minimum[row] = d.type == BlockType::q4_1 ? half_at(tile + 32, row) : 0.0F;
            }
            for (int64_t r = 0; r < d.rows; ++r) {
                const float* const x = d.x + r * d.x_stride + b * block_width;
                float chain[4][block_rows] = {};
                for (int64_t k = 0; k < block_width; ++k) {
                    for (int64_t row = 0; row < block_rows; ++row)
                        chain[k % 4][row] += numbers[k][row] * x[k];
                }
                float* const y = d.y + r * d.y_stride + out;
                for (int64_t row = 0; row < block_rows; ++row) {
                    const float s = (chain[0][row] + chain[1][row]) + (chain[2][row] + chain[3][row]);
                    y[row] += scale[row] * s;
                    if (d.type == BlockType::q4_1) y[row] += minimum[row] * d.sums[r * blocks + b];
                }
            }
        }
        for (int64_t r = 0; r < d.rows && d.bias != nullptr; ++r) {
            for (int64_t row = 0; row < block_rows; ++row)
                d.y[r * d.y_stride + out + row] += d.bias[out + row];
        }
    }
}

} // namespace refreshlab::kernels::cpu
