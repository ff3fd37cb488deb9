#include "kernels/blocks/blocks.h"

#include "kernels/blocks/block_kernels.h"
#include "kernels/blocks/device_blocks.h"
#include "kernels/cpu/half.h"
#include "kernels/execution/huge_pages.h"
#include "kernels/execution/isa.h"
#include "kernels/execution/thread_pool.h"
#include "kernels/shared/check.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

namespace refreshlab::kernels {
namespace {

using cpu::BlockDots;
using cpu::tile_bytes;
using cpu::tile_head_bytes;

constexpr int64_t min_task_products = 48 * 1024; // as in cpu/dense_cpu.cpp

/// Row `row` of a tile from its stored block.
void pack_row(BlockType type, const std::byte* block, int64_t row, std::byte* tile) {
    std::memcpy(tile + 2 * row, block, 2);
    if (type == BlockType::q4_1) std::memcpy(tile + 32 + 2 * row, block + 2, 2);
    const std::byte* const from = block + (type == BlockType::q4_1 ? 4 : 2);
    std::byte* const to = tile + tile_head_bytes(type);
    if (type == BlockType::q8_0) {
        for (int64_t k = 0; k < block_width; ++k)
            to[block_rows * k + row] = from[k];
        return;
    }
    // A stored byte i holds number i in its low half and number i + 16 in its high half.
    for (int64_t group = 0; group < block_width / 8; ++group) {
        uint32_t word = 0;
        for (int64_t i = 0; i < 8; ++i) {
            const int64_t k = 8 * group + i;
            const auto byte = static_cast<uint32_t>(from[k % 16]);
            word |= (k < 16 ? byte & 15U : byte >> 4) << (4 * i);
        }
        std::memcpy(to + 4 * (block_rows * group + row), &word, sizeof(word));
    }
}

float half_at(const std::byte* p) {
    cpu::F16 h{};
    std::memcpy(&h.bits, p, sizeof(h.bits));
    return cpu::to_float(h);
}

/// One row of a tile: 32 numbers.
void unpack_row(BlockType type, const std::byte* tile, int64_t row, float* out) {
    const float d = half_at(tile + 2 * row);
    const std::byte* const from = tile + tile_head_bytes(type);
    for (int64_t k = 0; k < block_width; ++k) {
        if (type == BlockType::q8_0) {
            out[k] = d * static_cast<float>(static_cast<int8_t>(from[block_rows * k + row]));
            continue;
        }
        uint32_t word = 0;
        std::memcpy(&word, from + 4 * (block_rows * (k / 8) + row), sizeof(word));
        const auto q = static_cast<int>((word >> (4 * (k % 8))) & 15U);
        out[k] = type == BlockType::q4_0 ? d * static_cast<float>(q - 8)
                                         : d * static_cast<float>(q) + half_at(tile + 32 + 2 * row);
    }
}

/// Sums of every block's inputs, [rows, in / 32].
std::vector<float> input_sums(const float* x, int64_t rows, int64_t in) {
    const int64_t blocks = rows * in / block_width;
    std::vector<float> sums(static_cast<size_t>(blocks));
    parallel_for(blocks, min_task_products / block_width, [&](int64_t begin, int64_t end) {
        cpu::block_input_sums(x + begin * block_width, end - begin, sums.data() + begin);
    });
    return sums;
}

/// Rows of one call: as many as the second cache holds, and their sums the first, in multiples of what kernels do at once (5 or 3).
struct RowBlocks {
    int64_t rows, count;
};
RowBlocks row_blocks_of(int64_t rows, int64_t in) {
    constexpr int64_t cached_bytes = 384 * 1024, least_rows = 60, most_rows = 180, step = 15;
    const int64_t fit = std::clamp(cached_bytes / (4 * in), least_rows, most_rows);
    const int64_t count = (rows + fit - 1) / fit;
    const int64_t each = (rows + count - 1) / count;
    const int64_t block = (each + step - 1) / step * step;
    return {block, (rows + block - 1) / block};
}

} // namespace

namespace cpu {
void block_dots(const BlockDots& d) {
    switch (isa()) {
    case Isa::avx512:
        return block_dots_avx512(d);
    case Isa::avx2:
        return block_dots_avx2(d);
    case Isa::portable:
    case Isa::reference:
        return block_dots_portable(d);
    }
}
} // namespace cpu

at::Tensor pack_blocks(BlockType type, int64_t out, int64_t in,
                       const std::function<const std::byte*(int64_t)>& row) {
    RL_ASSERT(can_pack_blocks(out, in));
    const int64_t blocks = in / block_width, bytes = tile_bytes(type), stored = stored_block_bytes(type);
    at::Tensor packed = at::empty({out / block_rows, blocks, bytes}, at::TensorOptions().dtype(at::kByte));
    prefer_huge_pages(packed.mutable_data_ptr(), packed.nbytes());
    auto* const to = static_cast<std::byte*>(packed.mutable_data_ptr());
    constexpr int64_t least_elements = int64_t{1} << 16; // of a thread's piece
    parallel_for(out / block_rows, least_elements / (in * block_rows) + 1, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin * block_rows; r < end * block_rows; ++r) {
            const std::byte* const from = row(r);
            for (int64_t b = 0; b < blocks; ++b)
                pack_row(type, from + b * stored, r % block_rows, to + (r / block_rows * blocks + b) * bytes);
        }
    });
    return packed;
}

bool is_blocks(const at::Tensor& weight) {
    return weight.defined() && weight.scalar_type() == at::kByte;
}

BlockShape block_shape(const at::Tensor& packed) {
    RL_ASSERT(is_blocks(packed) && packed.dim() == 3 && packed.is_contiguous());
    BlockShape shape{BlockType::q8_0, packed.size(0) * block_rows, packed.size(1) * block_width};
    for (const BlockType type : {BlockType::q8_0, BlockType::q4_0, BlockType::q4_1}) {
        shape.type = type;
        if (packed.size(2) == tile_bytes(type)) return shape;
    }
    RL_ASSERT(!"a packed matrix");
    return shape;
}

bool blocks_are_finite(const at::Tensor& packed) {
    const BlockShape shape = block_shape(packed);
    const auto* const from = static_cast<const std::byte*>(packed.const_data_ptr());
    const int64_t tiles = packed.size(0) * packed.size(1);
    for (int64_t t = 0; t < tiles; ++t) {
        for (int64_t i = 0; i < tile_head_bytes(shape.type); i += 2) {
            uint16_t bits = 0;
            std::memcpy(&bits, from + t * tile_bytes(shape.type) + i, sizeof(bits));
            if ((bits & 0x7C00U) == 0x7C00U) return false;
        }
    }
    return true;
}

at::Tensor block_values(const at::Tensor& given, std::span<const int64_t> ids) {
    const at::Tensor packed = blocks_on(given, at::kCPU);
    const BlockShape shape = block_shape(packed);
    const int64_t blocks = shape.in / block_width;
    at::Tensor values =
        at::empty({static_cast<int64_t>(ids.size()), shape.in}, at::TensorOptions().dtype(at::kFloat));
    float* const out = values.mutable_data_ptr<float>();
    const auto* const from = static_cast<const std::byte*>(packed.const_data_ptr());
    parallel_for(static_cast<int64_t>(ids.size()), 65536 / shape.in + 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t row = ids[static_cast<size_t>(i)];
            RL_ASSERT(row >= 0 && row < shape.out);
            for (int64_t b = 0; b < blocks; ++b) {
                unpack_row(shape.type, from + (row / block_rows * blocks + b) * tile_bytes(shape.type),
                           row % block_rows, out + i * shape.in + b * block_width);
            }
        }
    });
    return values;
}

at::Tensor block_values(const at::Tensor& packed) {
    std::vector<int64_t> ids(static_cast<size_t>(block_shape(packed).out));
    std::iota(ids.begin(), ids.end(), int64_t{0});
    return block_values(packed, ids);
}

at::Tensor block_linear(const at::Tensor& x_in, const at::Tensor& packed, const at::Tensor& bias_in) {
    RL_ASSERT(x_in.scalar_type() == at::kFloat && x_in.is_cpu());
    const BlockShape shape = block_shape(packed);
    const at::Tensor x = x_in.contiguous();
    const at::Tensor bias = bias_in.defined() ? bias_in.to(at::kFloat).contiguous() : at::Tensor();
    const int64_t rows = x.size(0);
    at::Tensor y = at::empty({rows, shape.out}, x.options());
    if (rows == 0) return y;
    const float* const xd = x.const_data_ptr<float>();
    const std::vector<float> sums =
        shape.type == BlockType::q4_1 ? input_sums(xd, rows, shape.in) : std::vector<float>();
    BlockDots all;
    all.type = shape.type;
    all.x = xd;
    all.x_stride = shape.in;
    all.rows = rows;
    all.sums = sums.data();
    all.tiles = static_cast<const std::byte*>(packed.const_data_ptr());
    all.in = shape.in;
    all.bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
    all.y = y.mutable_data_ptr<float>();
    all.y_stride = shape.out;
    const int64_t tile_row_bytes = shape.in / block_width * tile_bytes(shape.type);
    const RowBlocks cut = row_blocks_of(rows, shape.in);
    // Task t: tile row t % tile_rows of row block t / tile_rows, so that tasks in sequence share rows of x.
    const int64_t tile_rows = shape.out / block_rows;
    const int64_t grain =
        std::max<int64_t>(min_task_products / (std::min(rows, cut.rows) * shape.in * block_rows), 1);
    parallel_for(tile_rows * cut.count, grain, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end;) {
            const int64_t row = t / tile_rows * cut.rows, tile_row = t % tile_rows;
            const int64_t count = std::min(end - t, tile_rows - tile_row);
            t += count;
            BlockDots d = all;
            d.x += row * shape.in;
            d.rows = std::min(cut.rows, rows - row);
            if (!sums.empty()) d.sums += row * (shape.in / block_width);
            d.tiles += tile_row * tile_row_bytes;
            d.outs = count * block_rows;
            d.bias = all.bias != nullptr ? all.bias + tile_row * block_rows : nullptr;
            d.y += row * shape.out + tile_row * block_rows;
            cpu::block_dots(d);
        }
    });
    return y;
}

} // namespace refreshlab::kernels
