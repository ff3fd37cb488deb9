#pragma once

#include "kernels/cuda/device/launch.cuh"
#include "kernels/decode/launch_shapes.h"
#include "kernels/shared/half_types.h"

#include <cstdint>
#include <type_traits>

/// Weights and cache entries as they are stored, read as fp32: single ones, and vectors of 16 bytes.
namespace refreshlab::kernels::RL_GPU {

template <WeightType type>
using Stored = std::conditional_t<type == WeightType::f32, float, uint16_t>;
/// Weights in 16 bytes.
template <WeightType type>
inline constexpr int per_vector = type == WeightType::f32 ? 4 : 8;

template <WeightType type>
__device__ inline float to_float(Stored<type> stored) {
    if constexpr (type == WeightType::f32) {
        return stored;
    } else if constexpr (type == WeightType::bf16) {
        return shared::bf16_to_float(stored);
    } else {
        return shared::half_to_float(stored);
    }
}

/// To the nearest, ties to even.
template <WeightType type>
__device__ inline Stored<type> to_stored(float x) {
    if constexpr (type == WeightType::f32) {
        return x;
    } else if constexpr (type == WeightType::bf16) {
        return shared::float_to_bf16(x);
    } else {
        return shared::float_to_half(x);
    }
}

/// Weight i of an array that nobody writes while the kernel is there.
template <WeightType type>
__device__ inline float weight_at(const void* weights, int64_t i) {
    return to_float<type>(__ldg(static_cast<const Stored<type>*>(weights) + i));
}
/// Weights i to i + 3, i a multiple of 4.
template <WeightType type>
__device__ inline float4 four_weights_at(const void* weights, int64_t i) {
    if constexpr (type == WeightType::f32) {
        return __ldg(static_cast<const float4*>(weights) + i / 4);
    } else {
        const uint2 raw = __ldg(static_cast<const uint2*>(weights) + i / 4);
        return make_float4(to_float<type>(static_cast<uint16_t>(raw.x & 0xFFFFU)),
                           to_float<type>(static_cast<uint16_t>(raw.x >> 16)),
                           to_float<type>(static_cast<uint16_t>(raw.y & 0xFFFFU)),
                           to_float<type>(static_cast<uint16_t>(raw.y >> 16)));
    }
}

/// What a norm multiplies by: an offset and a weight. data null: there is no norm.
struct NormWeights {
    const void* data = nullptr;
    float offset = 0;
    __device__ explicit operator bool() const { return data != nullptr; }
};
[[nodiscard]] inline NormWeights norm_weights(const void* data, double offset) {
    return {data, static_cast<float>(offset)};
}
template <WeightType type>
__device__ inline float weight_at(const NormWeights& norm, int64_t i) {
    return __fadd_rn(weight_at<type>(norm.data, i), norm.offset);
}
template <WeightType type>
__device__ inline float4 four_weights_at(const NormWeights& norm, int64_t i) {
    const float4 four = four_weights_at<type>(norm.data, i);
    return make_float4(__fadd_rn(four.x, norm.offset), __fadd_rn(four.y, norm.offset),
                       __fadd_rn(four.z, norm.offset), __fadd_rn(four.w, norm.offset));
}

/// Weights 4 `part` to 4 `part` + 3 of a vector. \param part  below per_vector / 4, known when it is compiled
template <WeightType type>
__device__ inline void unpack(const uint4& vector, int part, float (&out)[4]) {
    if constexpr (type == WeightType::f32) {
        out[0] = shared::bits_float(vector.x);
        out[1] = shared::bits_float(vector.y);
        out[2] = shared::bits_float(vector.z);
        out[3] = shared::bits_float(vector.w);
    } else {
        const unsigned low = part == 0 ? vector.x : vector.z, high = part == 0 ? vector.y : vector.w;
        if constexpr (type == WeightType::bf16) {
            out[0] = shared::bits_float(low << 16);
            out[1] = shared::bits_float(low & 0xFFFF0000U);
            out[2] = shared::bits_float(high << 16);
            out[3] = shared::bits_float(high & 0xFFFF0000U);
        } else {
            out[0] = shared::half_to_float(static_cast<uint16_t>(low & 0xFFFFU));
            out[1] = shared::half_to_float(static_cast<uint16_t>(low >> 16));
            out[2] = shared::half_to_float(static_cast<uint16_t>(high & 0xFFFFU));
            out[3] = shared::half_to_float(static_cast<uint16_t>(high >> 16));
        }
    }
}

__device__ inline float4 add_fours(const float4& a, const float4& b) {
    return make_float4(__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y), __fadd_rn(a.z, b.z), __fadd_rn(a.w, b.w));
}
__device__ inline float4 scaled_four(const float (&x)[4], float scale) {
    return make_float4(__fmul_rn(x[0], scale), __fmul_rn(x[1], scale), __fmul_rn(x[2], scale),
                       __fmul_rn(x[3], scale));
}
/// Weights [0, n) of a row times `scale` as fp32, n a multiple of per_vector, by THREADS threads of which this is one: each reads 16 bytes at a time.
template <WeightType type, int THREADS>
__device__ inline void copy_as_floats(const Stored<type>* from, float scale, float* to, int n) {
    constexpr int parts = per_vector<type> / 4;
    const auto* const vectors = reinterpret_cast<const uint4*>(from);
    auto* const fours = reinterpret_cast<float4*>(to);
    for (int v = static_cast<int>(threadIdx.x); v < n / per_vector<type>; v += THREADS) {
        const uint4 raw = __ldg(vectors + v);
#pragma unroll
        for (int part = 0; part < parts; ++part) {
            float four[4];
            unpack<type>(raw, part, four);
            fours[v * parts + part] = scaled_four(four, scale);
        }
    }
}

/// The same sum in every lane. Its order is that of a tree, whatever the values are of.
__device__ inline float warp_sum(float x) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
        x = __fadd_rn(x, __shfl_xor_sync(0xFFFFFFFFU, x, lanes));
    return x;
}
/// Lanes that get one of N sums.
template <int N>
inline constexpr int lanes_of_sum = 32 / N;
/// N sums over a warp at once, N a power of two up to 32: lane l gets number l / lanes_of_sum<N>. Each has the bits that warp_sum makes.
/// Lanes hand on the half of the values that the lane across them goes on with, so N sums take N - 1 shuffles, and one for each
/// halving that is left.
template <int N, int lanes = 16>
__device__ inline float warp_sums(float (&values)[N]) {
    if constexpr (lanes == 0) {
        return values[0];
    } else if constexpr (N == 1) {
        values[0] = __fadd_rn(values[0], __shfl_xor_sync(0xFFFFFFFFU, values[0], lanes));
        return warp_sums<1, lanes / 2>(values);
    } else {
        const bool upper = (threadIdx.x & static_cast<unsigned>(lanes)) != 0;
        float kept[N / 2];
#pragma unroll
        for (int i = 0; i < N / 2; ++i) {
            const float given = upper ? values[i] : values[i + N / 2];
            kept[i] =
                __fadd_rn(upper ? values[i + N / 2] : values[i], __shfl_xor_sync(0xFFFFFFFFU, given, lanes));
        }
        return warp_sums<N / 2, lanes / 2>(kept);
    }
}
/// NaN is passed over.
__device__ inline float warp_max(float x) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFU, x, lanes));
    return x;
}

} // namespace refreshlab::kernels::RL_GPU
