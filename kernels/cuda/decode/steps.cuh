#pragma once

#include "kernels/cuda/decode/decode_kernels.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/shared/check.h"
#include "kernels/shared/philox.h"

/// What the kernels of a step ask of its state, and how their launches are made.
namespace refreshlab::kernels::RL_GPU {

/// Rows from `first` on that a step has, of `rows` that were launched; at most `held`.
__device__ inline int live_rows(const StepState* state, int rows, int first, int held) {
    const int passes = state->passes;
    const int all = (passes + 1 < rows ? passes + 1 : rows) - first;
    return all < held ? all : held;
}

/// The masks of one pass at one site.
/// \param threshold  shared::mask_threshold(probability)
__device__ inline shared::MaskStream masks_of(const StepState& state, uint32_t site, uint32_t layer, int pass,
                                              uint32_t high, uint32_t threshold) {
    shared::MaskStream stream;
    stream.key_0 = static_cast<uint32_t>(state.seed);
    stream.key_1 = static_cast<uint32_t>(state.seed >> 32);
    stream.high = high;
    stream.position = static_cast<uint32_t>(state.position);
    stream.tag = shared::mask_tag(site, layer, static_cast<uint32_t>(pass));
    stream.threshold = threshold;
    return stream;
}

/// A site as kernels take it.
struct Masks {
    uint32_t site = 0, layer = 0, threshold = 0; ///< threshold 0: everything is kept
    float scale = 1;
};
[[nodiscard]] inline Masks masks(const BranchDropout& site) {
    RL_ASSERT(site.probability >= 0.0F && site.probability < 1.0F && site.layer < 4096U && site.site < 16U);
    if (site.probability == 0.0F) return {};
    return {site.site, site.layer, shared::mask_threshold(site.probability),
            1.0F / (1.0F - site.probability)};
}

[[nodiscard]] inline LaunchConfig config_of(const LaunchShape& shape, bool dependent) {
    return {dim3(shape.grid[0], shape.grid[1], shape.grid[2]),
            dim3(shape.block[0], shape.block[1], shape.block[2]), shape.shared_bytes, dependent,
            shape.cluster};
}
template <typename... P, typename... A>
void launch_step(bool dependent, void (*kernel)(P...), const LaunchShape& shape, void* stream,
                 A&&... arguments) {
    launch_as(config_of(shape, dependent), kernel, static_cast<cudaStream_t>(stream),
              static_cast<A&&>(arguments)...);
}

/// Calls `body` with the type as a constant: body.template operator()<type>().
template <typename Body>
auto with_type(WeightType type, const Body& body) {
    if (type == WeightType::f32) return body.template operator()<WeightType::f32>();
    if (type == WeightType::bf16) return body.template operator()<WeightType::bf16>();
    RL_ASSERT(type == WeightType::f16);
    return body.template operator()<WeightType::f16>();
}
/// And with the rows that a block of a product holds, 1 or decode::mc_rows_held: body.template operator()<type, rows>().
template <typename Body>
void with_type_and_mc_rows(WeightType type, int64_t rows, const Body& body) {
    with_type(type, [&]<WeightType t>() {
        if (rows == 1) return body.template operator()<t, 1>();
        if constexpr (t != WeightType::f32) {
            const int64_t held = decode::mc_rows_held(t, rows);
            if (held == 17) return body.template operator()<t, 17>();
            if (held == 25) return body.template operator()<t, 25>();
        }
        body.template operator()<t, 9>();
    });
}

} // namespace refreshlab::kernels::RL_GPU
