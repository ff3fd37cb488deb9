#pragma once

#include "kernels/cuda/decode/weights.cuh"
#include "kernels/cuda/rows/row_kernels.h"

/// Sums over many inputs that a product left in parts (rows::product_parts()), read by the kernel behind it, which the rows pass through anyway:
/// the norm where they join the residual, rows_append of q | k | v.
///
/// Order   of a sum: the parts one after the other as their inputs ascend, then the bias. Neither rows nor blocks have a say in it, and no
///         part waits for another.
namespace refreshlab::kernels::RL_GPU {

/// [count, rows, outputs].
struct PartSums {
    const float* sums;
    int count;
    int64_t stride; ///< numbers of one part
};
[[nodiscard]] inline PartSums part_sums(const ProductParts& parts, int64_t rows, int64_t outputs) {
    RL_ASSERT(parts.count == 1 || parts.sums != nullptr);
    return {parts.sums, static_cast<int>(parts.count), rows * outputs};
}

/// Four sums side by side. \param at    of the first in a part, a multiple of 4
/// \param bias  of all outputs, or null; `output` is the first's
template <WeightType type>
__device__ inline float4 merged_parts(const PartSums& parts, int64_t at, const void* bias, int output) {
    const auto part = [&](int p) -> const float4& {
        return *reinterpret_cast<const float4*>(parts.sums + p * parts.stride + at);
    };
    float4 sum = parts.count == 1 ? part(0) : add_fours(part(0), part(1));
    for (int p = 2; p < parts.count; ++p)
        sum = add_fours(sum, part(p));
    return bias == nullptr ? sum : add_fours(sum, four_weights_at<type>(bias, output));
}

} // namespace refreshlab::kernels::RL_GPU
