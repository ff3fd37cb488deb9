#pragma once

#include "kernels/cuda/decode/block_weights.cuh"
#include "kernels/cuda/rows/rounded.cuh"

/// Matrices in blocks, rounded for tensor cores.
namespace refreshlab::kernels::RL_GPU {

/// Inputs 8t to 8t + 7 of an output in a tile of blocks.
template <WeightType type, MatrixForm form>
__device__ inline uint4 weights_of_block(const unsigned char* tile, int output, int t) {
    uint32_t low, high; // words of numbers 0 to 3, and 4 to 7
    if constexpr (form == MatrixForm::q8_0) {
        uint2 words = make_uint2(0, 0);
        words = *reinterpret_cast<const uint2*>(tile + t / 2 * 256 + output * 16 + t % 2 * 8);
        low = words.x;
        high = words.y;
    } else {
        low = high = *reinterpret_cast<const uint32_t*>(tile + output * 16 + t * 4);
    }
    const BlockScale scale = block_scale<form>(tile, output);
    float a[4], b[4];
    unpack_word<form>(low, 0, scale, a);
    unpack_word<form>(high, 1, scale, b);
    return make_uint4(rounded_pair<type>(a[0], a[1]), rounded_pair<type>(a[2], a[3]),
                      rounded_pair<type>(b[0], b[1]), rounded_pair<type>(b[2], b[3]));
}

} // namespace refreshlab::kernels::RL_GPU
