#pragma once

#include "kernels/shared/host_device.h"

#include <cstdint>

/// Philox4x32-10, a counter-based random generator: 128 random bits are a pure function of a 128-bit counter and a
/// 64-bit key, so a draw has a name and no place in a sequence. Source: Salmon, Moraes, Dror, Shaw, "Parallel random
/// numbers: as easy as 1, 2, 3", SC 2011.
namespace refreshlab::kernels::shared {

struct Philox4 {
    uint32_t word[4];
};

inline constexpr uint32_t philox_multiplier_0 = 0xD2511F53U;
inline constexpr uint32_t philox_multiplier_1 = 0xCD9E8D57U;
inline constexpr uint32_t philox_weyl_0 = 0x9E3779B9U; // golden ratio
inline constexpr uint32_t philox_weyl_1 = 0xBB67AE85U; // sqrt(3) - 1
inline constexpr int philox_rounds = 10;

RL_HOST_DEVICE inline Philox4 philox4x32(Philox4 counter, uint32_t key_0, uint32_t key_1) {
    for (int round = 0; round < philox_rounds; ++round) {
        const uint64_t product_0 = static_cast<uint64_t>(philox_multiplier_0) * counter.word[0];
        const uint64_t product_1 = static_cast<uint64_t>(philox_multiplier_1) * counter.word[2];
        counter = {{static_cast<uint32_t>(product_1 >> 32) ^ counter.word[1] ^ key_0,
                    static_cast<uint32_t>(product_1),
                    static_cast<uint32_t>(product_0 >> 32) ^ counter.word[3] ^ key_1,
                    static_cast<uint32_t>(product_0)}};
        key_0 += philox_weyl_0;
        key_1 += philox_weyl_1;
    }
    return counter;
}

/// One row of a dropout mask: everything of the key but the low half of the element number. Layout:
///
///   key      = (seed low, seed high)
///   counter  = word 0: (e / 128) * 16 + e % 16, e = low 32 bits of the element (key position, or channel)
///              word 1: high 32 bits of the element (the head, for attention; else 0)
///              word 2: position of the query token
///              word 3: site (4 bits) << 28 | layer (12 bits) << 16 | pass (16 bits)
///   draw     = the h-th 16-bit half of the result, h = (e / 16) % 8, word 0 low half first
///   kept     = draw >= round(p * 2^16)
///
/// A draw takes sixteen bits, so one call makes eight draws. p is therefore rounded to a multiple of 2^-16, far finer
/// than any mask can show. Sixteen neighbouring elements are the same half of sixteen calls, so vector code needs no
/// shuffles.
struct MaskStream {
    uint32_t key_0 = 0, key_1 = 0;
    uint32_t high = 0, position = 0, tag = 0;
    uint32_t threshold = 0; ///< in [0, 65536]
};

inline constexpr uint32_t mask_lanes = 16;  ///< calls side by side
inline constexpr uint32_t mask_block = 128; ///< elements that they serve

RL_HOST_DEVICE inline uint32_t mask_tag(uint32_t site, uint32_t layer, uint32_t pass) {
    return (site << 28) | (layer << 16) | pass;
}

RL_HOST_DEVICE inline uint32_t mask_threshold(float p) {
    return static_cast<uint32_t>(static_cast<double>(p) * 65536.0 + 0.5);
}

/// One call: its eight draws are of the elements block * 128 + h * 16 + lane, h = 0 .. 7.
RL_HOST_DEVICE inline Philox4 mask_draws(const MaskStream& stream, uint32_t block, uint32_t lane) {
    return philox4x32({{block * mask_lanes + lane, stream.high, stream.position, stream.tag}}, stream.key_0,
                      stream.key_1);
}
RL_HOST_DEVICE inline bool mask_draw_keeps(const MaskStream& stream, const Philox4& draws, uint32_t h) {
    // By selection: an index that is known only at run time would put the words into a GPU's memory.
    const uint32_t low = h < 2 ? draws.word[0] : draws.word[1], high = h < 6 ? draws.word[2] : draws.word[3];
    return (((h < 4 ? low : high) >> (16 * (h % 2))) & 0xFFFFU) >= stream.threshold;
}

RL_HOST_DEVICE inline bool mask_keeps(const MaskStream& stream, uint32_t element) {
    return mask_draw_keeps(stream, mask_draws(stream, element / mask_block, element % mask_lanes),
                           element / mask_lanes % 8);
}

} // namespace refreshlab::kernels::shared
