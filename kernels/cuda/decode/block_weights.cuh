#pragma once

#include "kernels/cuda/decode/steps.cuh"
#include "kernels/cuda/decode/weights.cuh"

/// Matrices in blocks (kernels/blocks/device_blocks.h), read as fp32: the numbers of their file exactly.
///
/// A number q that is stored as byte or four bits b becomes 2^15 + b by one permutation of bytes, which puts b into the mantissa. One fused
/// multiply-add takes 2^15 and the offset away and scales: d (2^15 + b) - d (2^15 + offset). Both products and their difference d q fit into
/// fp32's 24 bits, so nothing is rounded. q4_1 has a minimum, which that would round; there 2^15 is taken away first, and d q + m is rounded
/// once, as on the CPU.
namespace refreshlab::kernels::RL_GPU {

/// Numbers of one output in 16 bytes.
template <MatrixForm form>
inline constexpr int numbers_in_vector = form == MatrixForm::q8_0 ? 16 : 32;
template <MatrixForm form>
inline constexpr int bytes_in_tile = static_cast<int>(tile_bytes(form));
/// Where a tile's scales begin.
template <MatrixForm form>
inline constexpr int scales_at = form == MatrixForm::q8_0 ? 512 : 256;

/// What makes numbers of a block's bytes.
struct BlockScale {
    float d, rest; ///< scale; minimum (q4_1), or what is taken away
};
/// \param tile  also in shared memory
template <MatrixForm form>
__device__ inline BlockScale block_scale(const unsigned char* tile, int output) {
    if constexpr (form == MatrixForm::q4_1) {
        const uint32_t pair = *(reinterpret_cast<const uint32_t*>(tile + scales_at<form>) + output);
        return {shared::half_to_float(static_cast<uint16_t>(pair & 0xFFFFU)),
                shared::half_to_float(static_cast<uint16_t>(pair >> 16))};
    } else {
        constexpr float offset = 32768.0F + (form == MatrixForm::q8_0 ? 128.0F : 8.0F);
        const float d =
            shared::half_to_float(*(reinterpret_cast<const uint16_t*>(tile + scales_at<form>) + output));
        return {d, -offset * d};
    }
}

/// Four numbers in the bytes of a word; of four bits each in their lower halves, the upper ones 0.
template <MatrixForm form>
__device__ inline void unpack_bytes(uint32_t bytes, const BlockScale& scale, float (&out)[4]) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
        // Bytes 0, b, 0 and 0x47: 2^15 (1 + b 2^8 / 2^23).
        const float b = shared::bits_float(__byte_perm(bytes, 0x47000000U, 0x7404U | i << 4));
        if constexpr (form == MatrixForm::q4_1) {
            out[i] = fmaf(b - 32768.0F, scale.d, scale.rest);
        } else {
            out[i] = fmaf(b, scale.d, scale.rest);
        }
    }
}
/// Numbers 4 `part` to 4 `part` + 3 of a vector, or of the word that they stand in. \param part  known when it is compiled
template <MatrixForm form>
__device__ inline void unpack_word(uint32_t word, int part, const BlockScale& scale, float (&out)[4]) {
    if constexpr (form == MatrixForm::q8_0) {
        unpack_bytes<form>(word, scale, out);
    } else {
        unpack_bytes<form>((part % 2 == 0 ? word : word >> 4) & 0x0F0F0F0FU, scale, out);
    }
}
template <MatrixForm form>
__device__ inline void unpack_block(const uint4& vector, int part, const BlockScale& scale, float (&out)[4]) {
    const int at = form == MatrixForm::q8_0 ? part : part / 2;
    unpack_word<form>(at == 0   ? vector.x
                      : at == 1 ? vector.y
                      : at == 2 ? vector.z
                                : vector.w,
                      part, scale, out);
}

/// Row `row` of a matrix [., inputs] times `factor` as fp32, by THREADS threads of which this is one. \tparam type  where the form is numbers
template <WeightType type, MatrixForm form, int THREADS>
__device__ inline void copy_row(const void* matrix, int64_t row, int inputs, float factor, float* to) {
    if constexpr (form == MatrixForm::numbers) {
        copy_as_floats<type, THREADS>(static_cast<const Stored<type>*>(matrix) + row * inputs, factor, to,
                                      inputs);
    } else {
        constexpr int numbers = numbers_in_vector<form>;
        const int output = static_cast<int>(row % block_rows);
        const auto* const tiles = static_cast<const unsigned char*>(matrix) +
                                  row / block_rows * (inputs / block_width) * bytes_in_tile<form>;
        auto* const fours = reinterpret_cast<float4*>(to);
        for (int v = static_cast<int>(threadIdx.x); v < inputs / numbers; v += THREADS) {
            const unsigned char* const tile = tiles + v * numbers / block_width * bytes_in_tile<form>;
            const int half = v * numbers % static_cast<int>(block_width) / 16;
            const uint4 vector = __ldg(reinterpret_cast<const uint4*>(tile) + half * block_rows + output);
            const BlockScale scale = block_scale<form>(tile, output);
#pragma unroll
            for (int part = 0; part < numbers / 4; ++part) {
                float four[4];
                unpack_block<form>(vector, part, scale, four);
                fours[v * (numbers / 4) + part] = scaled_four(four, factor);
            }
        }
    }
}

/// Calls body.template operator()<type, form>(): the type of numbers, or bf16 and a form of blocks.
template <typename Body>
void with_form(WeightType type, MatrixForm form, const Body& body) {
    RL_ASSERT(form == MatrixForm::numbers || type == WeightType::bf16);
    switch (form) {
    case MatrixForm::numbers:
        return with_type(type, [&]<WeightType t>() { body.template operator()<t, MatrixForm::numbers>(); });
    case MatrixForm::q8_0:
        return body.template operator()<WeightType::bf16, MatrixForm::q8_0>();
    case MatrixForm::q4_0:
        return body.template operator()<WeightType::bf16, MatrixForm::q4_0>();
    case MatrixForm::q4_1:
        return body.template operator()<WeightType::bf16, MatrixForm::q4_1>();
    }
    RL_ASSERT(false);
}

} // namespace refreshlab::kernels::RL_GPU
