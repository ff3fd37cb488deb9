#pragma once

#include "kernels/blocks/blocks.h"
#include "kernels/blocks/device_blocks.h"
#include "kernels/ops/dense.h"
#include "kernels/shared/half_types.h"
#include "tests/kernels/simt/decode_fixture.h"

/// Matrices in blocks as a device's kernels take them, and as the plain references do.
namespace refreshlab::test::block_simt {

using namespace decode_simt;
using kernels::BlockType;
using kernels::MatrixForm;

inline const std::vector<BlockType> block_types{BlockType::q8_0, BlockType::q4_0, BlockType::q4_1};

/// Random numbers of about 1 / sqrt(inputs), as a file stores them: every number of a block, scales of either sign.
[[nodiscard]] inline at::Tensor random_blocks(Random& random, BlockType type, int64_t outputs,
                                              int64_t inputs) {
    const auto bytes_each = static_cast<size_t>(kernels::stored_block_bytes(type));
    std::vector<std::byte> stored(static_cast<size_t>(outputs * inputs / kernels::block_width) * bytes_each);
    const double size = 1.0 / std::sqrt(static_cast<double>(inputs)) / (type == BlockType::q8_0 ? 74 : 4.6);
    for (size_t at = 0; at < stored.size(); at += bytes_each) {
        for (size_t i = 0; i < bytes_each; ++i)
            stored[at + i] = static_cast<std::byte>(random.between(0, 255));
        const auto put = [&](size_t i, double x) {
            const uint16_t half = kernels::shared::float_to_half(static_cast<float>(x));
            std::memcpy(&stored[at + i], &half, sizeof half);
        };
        const double d = size * (random.between(0, 1) == 1 ? 1 : -1) * random.uniform(0.5, 1.5);
        put(0, d);
        if (type == BlockType::q4_1) put(2, -7.5 * d + size * random.uniform(0, 1));
    }
    return kernels::pack_blocks(type, outputs, inputs, [&](int64_t row) {
        return stored.data() + static_cast<size_t>(row * inputs / kernels::block_width) * bytes_each;
    });
}

[[nodiscard]] inline Array<uint8_t> tiles_on_device(BlockType type, const at::Tensor& packed,
                                                    const std::string& name) {
    const at::Tensor tiles = at::empty_like(packed);
    kernels::to_device_tiles(type, packed.size(0) * packed.size(1),
                             static_cast<const std::byte*>(packed.const_data_ptr()),
                             static_cast<std::byte*>(tiles.mutable_data_ptr()));
    return bytes_on_device(tiles, name);
}

struct BlockMatrix {
    BlockMatrix(Random& random, BlockType type, int64_t outputs, int64_t inputs, bool with_bias,
                const std::string& name)
        : packed(random_blocks(random, type, outputs, inputs))
        , values(kernels::block_values(packed))
        , device(tiles_on_device(type, packed, name))
        , bias(random, {outputs}, WeightType::bf16, name + " bias")
        , in_use{device.data(), with_bias ? bias.device.data() : nullptr, outputs, inputs,
                 kernels::form_of(type)} {}
    /// x times the matrix, or times `weights` in its place.
    [[nodiscard]] at::Tensor product(const at::Tensor& x, const at::Tensor& weights = {}) const {
        return kernels::reference::linear(x, weights.defined() ? weights : values,
                                          in_use.bias == nullptr ? at::Tensor() : bias.values);
    }
    /// What tensor cores multiply.
    [[nodiscard]] at::Tensor rounded() const { return values.to(at::kBFloat16).to(at::kFloat); }
    at::Tensor packed, values;
    Array<uint8_t> device;
    Weights bias;
    gpu::Matrix in_use;
};

} // namespace refreshlab::test::block_simt
