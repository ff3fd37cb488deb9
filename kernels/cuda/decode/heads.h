#pragma once

#include "kernels/decode/device_decoder.h"

#include <cstdint>

namespace refreshlab::kernels {

/// What is done to a layer's heads before they are attended to, or kept: a norm over each head of q and k, then RoPE. Part of the inputs of
/// the kernels that do it.
struct HeadsInputs {
    WeightType type{};
    const void* q_norm = nullptr;
    const void* k_norm = nullptr; ///< [head_dim], or null: none
    double eps = 0, norm_offset = 0;
    const float* cos = nullptr;
    const float* sin = nullptr; ///< [positions, turned / 2] of all positions; null: nothing turns
    int64_t turned = 0;         ///< channels of a head that turn (DeviceModel); 0: all
    int64_t kv_heads = 0, head_dim = 0;
};
/// Of a layer over its cache. Norms over all heads together are not among them (qk_norms).
[[nodiscard]] inline HeadsInputs heads_of(const DeviceModel& model, const DeviceModel::Layer& layer,
                                          const DeviceCache& cache) {
    HeadsInputs in;
    in.type = model.type;
    if (!model.qk_norm_whole) {
        in.q_norm = layer.q_norm;
        in.k_norm = layer.k_norm;
    }
    in.eps = model.norm_eps;
    in.norm_offset = model.norm_offset;
    in.cos = cache.cos_of(layer.rope);
    in.sin = cache.sin_of(layer.rope);
    in.turned = model.turned;
    in.kv_heads = model.kv_heads;
    in.head_dim = model.head_dim;
    return in;
}

} // namespace refreshlab::kernels
