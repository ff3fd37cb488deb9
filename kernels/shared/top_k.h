#pragma once

#include "kernels/shared/host_device.h"

#include <cmath>
#include <cstdint>
#include <cstring>

/// Top-k over rows of logits as a maximum over 64-bit keys: the logit's bits, made monotone, above the complement of the
/// id. A larger key is a larger logit or, among equal logits, a lower id; keys never tie, so any order of merging gives
/// the same list.
namespace refreshlab::kernels::shared {

/// Below every real entry.
inline constexpr uint64_t top_k_empty = 0;

/// NaN counts as minus infinity; -0 equals +0.
RL_HOST_DEVICE inline uint64_t top_k_key(float logit, uint32_t id) {
    if (!(logit == logit)) logit = -INFINITY;
    logit += 0.0F; // -0 becomes +0
    uint32_t bits = 0;
    memcpy(&bits, &logit, sizeof bits);
    bits = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
    return (static_cast<uint64_t>(bits) << 32) | static_cast<uint32_t>(~id);
}

RL_HOST_DEVICE inline uint32_t top_k_id(uint64_t key) {
    return ~static_cast<uint32_t>(key);
}

RL_HOST_DEVICE inline float top_k_logit(uint64_t key) {
    uint32_t bits = static_cast<uint32_t>(key >> 32);
    bits = (bits & 0x80000000U) != 0 ? bits & 0x7FFFFFFFU : ~bits;
    float logit = 0;
    memcpy(&logit, &bits, sizeof logit);
    return logit;
}

/// Inserts a key into a list of k keys, largest first (unused places hold top_k_empty); drops the smallest.
RL_HOST_DEVICE inline void top_k_insert(uint64_t* list, int64_t k, uint64_t key) {
    if (k <= 0 || key <= list[k - 1]) return;
    int64_t i = k - 1;
    for (; i > 0 && list[i - 1] < key; --i)
        list[i] = list[i - 1];
    list[i] = key;
}

/// out[0, k) = the k largest of two lists sorted largest first; out overlaps neither.
RL_HOST_DEVICE inline void top_k_merge(const uint64_t* a, int64_t a_size, const uint64_t* b, int64_t b_size,
                                       uint64_t* out, int64_t k) {
    int64_t i = 0;
    int64_t j = 0;
    for (int64_t o = 0; o < k; ++o) {
        const uint64_t left = i < a_size ? a[i] : top_k_empty;
        const uint64_t right = j < b_size ? b[j] : top_k_empty;
        if (left >= right) {
            out[o] = left;
            ++i;
        } else {
            out[o] = right;
            ++j;
        }
    }
}

} // namespace refreshlab::kernels::shared
