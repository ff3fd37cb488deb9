#pragma once

#include "engine/results/scope_map.h"

#include <cstdint>
#include <random>

namespace refreshlab::test {

/// A whole map of a small model: every part, with losses between those of no refresh and of a whole one; six refreshes, 16 steps apart. Its greedy
/// order keeps more with each of four KV heads, which are there in a model of three layers and two KV heads.
inline ScopeMap random_scope_map(std::mt19937& random, int64_t layers = 3, int64_t kv_heads = 2,
                                 int64_t blocks = 1) {
    using Kind = ScopePart::Kind;
    std::uniform_real_distribution<double> share(0, 1);
    ScopeMap map;
    map.layers = layers;
    map.kv_heads = kv_heads;
    map.blocks = blocks;
    map.horizon = 8;
    map.entry_bytes = 64;
    for (int64_t r = 0; r < 6; ++r) {
        const double whole = share(random);
        map.refreshes.push_back({16 * (r + 1), 16, whole + 0.5 + share(random), whole, whole / 2});
    }
    const auto read = [&](ScopePart part) {
        ScopeMap::Reading reading{part, {}, {}};
        for (const ScopeMap::Refresh& refresh : map.refreshes) {
            reading.alone.push_back(refresh.none - share(random) * refresh.gain());
            reading.without.push_back(refresh.whole + share(random) * refresh.gain());
        }
        map.readings.push_back(std::move(reading));
    };
    const auto end = static_cast<int32_t>(layers), heads = static_cast<int32_t>(kv_heads);
    for (const ScopeParts half : {ScopeParts::keys, ScopeParts::values}) {
        read({.kind = Kind::half, .parts = half});
        for (int32_t l = 0; l < end; ++l)
            read({.kind = Kind::layer_half, .layer = l, .parts = half});
    }
    for (int32_t l = 0; l < end; ++l) {
        read({.kind = Kind::layer, .layer = l});
        for (int32_t b = 0; b < static_cast<int32_t>(blocks); ++b)
            read({.kind = Kind::block, .layer = l, .block = b});
        for (int32_t h = 0; h < heads; ++h)
            read({.kind = Kind::head, .layer = l, .kv_head = h});
    }
    const std::pair<int32_t, int32_t> order[] = {{2, 1}, {0, 0}, {1, 0}, {1, 1}};
    double kept = 0.3;
    for (const auto& [l, h] : order) {
        ScopeMap::Taken taken{l, h, {}};
        for (const ScopeMap::Refresh& refresh : map.refreshes)
            taken.loss.push_back(refresh.none - kept * refresh.gain());
        map.taken.push_back(std::move(taken));
        kept += 0.26;
    }
    return map;
}

} // namespace refreshlab::test
