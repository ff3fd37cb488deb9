#include "engine/model/derive/weight_changes.h"

#include "engine/base/check.h"
#include "kernels/blocks/blocks.h"
#include "kernels/execution/thread_pool.h"
#include "kernels/shared/philox.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numbers>
#include <vector>

namespace refreshlab {

namespace {

/// What is left of a scale or a minimum when it is stored in 16 bits.
at::Tensor as_f16(const at::Tensor& x) {
    constexpr double largest = 65504; // of f16
    return x.clamp(-largest, largest).to(at::kHalf).to(at::kFloat);
}

/// Four standard normal numbers of one Philox call. Source: Box and Muller 1958.
void four_normals(const kernels::shared::Philox4& bits, double* out) {
    for (int pair = 0; pair < 2; ++pair) {
        const double u = (static_cast<double>(bits.word[2 * pair]) + 1.0) / 4294967296.0; // (0, 1]
        const double v = static_cast<double>(bits.word[2 * pair + 1]) / 4294967296.0;
        const double radius = std::sqrt(-2.0 * std::log(u)), angle = 2.0 * std::numbers::pi * v;
        out[2 * pair] = radius * std::cos(angle);
        out[2 * pair + 1] = radius * std::sin(angle);
    }
}

/// A matrix as numbers q of groups, [out, groups, group], with their scales and minima, [out, groups, 1].
struct Rounded {
    at::Tensor q, scale, minimum;
};

Rounded rounded(const at::Tensor& w, int32_t bits, int64_t group, bool symmetric) {
    RL_ASSERT(w.dim() == 2 && w.scalar_type() == at::kFloat && group > 0 && w.size(1) % group == 0);
    RL_ASSERT(bits >= 2 && bits <= 8);
    const at::Tensor groups = w.reshape({w.size(0), w.size(1) / group, group});
    const double top = symmetric ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
    const double bottom = symmetric ? -top : 0;
    const at::Tensor minimum =
        symmetric ? at::zeros({w.size(0), w.size(1) / group, 1}, w.options()) : as_f16(groups.amin(2, true));
    const at::Tensor range =
        symmetric ? groups.abs().amax(2, true) : groups.amax(2, true) - groups.amin(2, true);
    const at::Tensor scale = as_f16(range / top);
    // A group of equal weights has no scale: its minimum is all there is.
    const at::Tensor divisor = at::where(scale > 0, scale, at::ones_like(scale));
    return {((groups - minimum) / divisor).round().clamp(bottom, top), scale, minimum};
}

} // namespace

at::Tensor round_to_bits(const at::Tensor& w, int32_t bits, int64_t group, bool symmetric) {
    const Rounded r = rounded(w, bits, group, symmetric);
    return (r.q * r.scale + r.minimum).reshape(w.sizes());
}

std::optional<kernels::BlockType> block_type_of(int64_t out, int64_t in, int32_t bits, int64_t group,
                                                bool symmetric) {
    if (bits == 0 || group % kernels::block_width != 0 || !kernels::can_pack_blocks(out, in)) return {};
    if (symmetric) return bits <= 4 ? kernels::BlockType::q4_0 : kernels::BlockType::q8_0;
    return bits <= 4 ? std::optional(kernels::BlockType::q4_1) : std::nullopt;
}

at::Tensor round_to_blocks(const at::Tensor& w, int32_t bits, int64_t group, bool symmetric) {
    const auto type = block_type_of(w.size(0), w.size(1), bits, group, symmetric);
    if (!type) return {};
    const Rounded r = rounded(w, bits, group, symmetric);
    const bool bytes = *type == kernels::BlockType::q8_0, offset = *type == kernels::BlockType::q4_1;
    const at::Tensor q = r.q.reshape(w.sizes()).to(at::kInt).contiguous();
    const at::Tensor scale = r.scale.to(at::kHalf).contiguous(),
                     minimum = r.minimum.to(at::kHalf).contiguous();
    const int64_t blocks = w.size(1) / kernels::block_width, of_group = group / kernels::block_width;
    const int64_t stored = kernels::stored_block_bytes(*type);
    std::vector<std::byte> file(static_cast<size_t>(w.size(0) * blocks * stored));
    for (int64_t b = 0; b < w.size(0) * blocks; ++b) {
        std::byte* to = file.data() + b * stored;
        const int32_t* const from = q.const_data_ptr<int32_t>() + b * kernels::block_width;
        std::memcpy(to, scale.const_data_ptr<at::Half>() + b / of_group, sizeof(at::Half));
        to += sizeof(at::Half);
        if (offset) {
            std::memcpy(to, minimum.const_data_ptr<at::Half>() + b / of_group, sizeof(at::Half));
            to += sizeof(at::Half);
        }
        const int32_t shift = symmetric ? 8 : 0; // of a number of four bits
        for (int64_t k = 0; k < (bytes ? 32 : 16); ++k) {
            to[k] = bytes ? static_cast<std::byte>(static_cast<int8_t>(from[k]))
                          : static_cast<std::byte>((from[k] + shift) | (from[k + 16] + shift) << 4);
        }
    }
    return kernels::pack_blocks(*type, w.size(0), w.size(1),
                                [&](int64_t row) { return file.data() + row * blocks * stored; });
}

at::Tensor with_noise(const at::Tensor& w, double sigma, uint64_t seed, uint32_t stream) {
    RL_ASSERT(w.scalar_type() == at::kFloat);
    at::Tensor noisy = w.to(at::kCPU).contiguous().clone();
    auto* const values = noisy.mutable_data_ptr<float>();
    const int64_t n = noisy.numel();
    double squares = 0; // in one order, so that the number of threads does not matter
    for (int64_t i = 0; i < n; ++i)
        squares += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    const double factor = n > 0 ? sigma * std::sqrt(squares / static_cast<double>(n)) : 0;
    constexpr int64_t per_call = 4, grain = 4096;
    kernels::parallel_for((n + per_call - 1) / per_call, grain, [&](int64_t begin, int64_t end) {
        for (int64_t call = begin; call < end; ++call) {
            double normal[per_call];
            four_normals(
                kernels::shared::philox4x32(
                    {{static_cast<uint32_t>(call), static_cast<uint32_t>(static_cast<uint64_t>(call) >> 32),
                      stream, 0x6E6F6973U}}, // "nois": no other draw is of this kind
                    static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)),
                normal);
            for (int64_t k = 0; k < std::min(per_call, n - call * per_call); ++k) {
                float& value = values[call * per_call + k];
                value = static_cast<float>(static_cast<double>(value) + factor * normal[k]);
            }
        }
    });
    return noisy.to(w.device());
}

} // namespace refreshlab
