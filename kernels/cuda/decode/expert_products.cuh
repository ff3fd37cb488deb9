#pragma once

#include "kernels/cuda/decode/block_weights.cuh"
#include "kernels/cuda/decode/experts.h"
#include "kernels/cuda/decode/row_products.cuh"

/// Products of one row of activations with a warp's rows of an expert's matrices, in numbers or in blocks: what expert_gate_up and expert_down
/// have in common. Numbers are read and added up as in row_products.cuh.
///
/// Blocks  a lane reads the 16 bytes of an output in a tile (kernels/blocks/device_blocks.h): 32 numbers, of q8_0 16. The two outputs of a warp stand
///         side by side there, so it reads whole sectors of memory, 32 bytes in each 256; all warps of a block together read whole tiles.
/// Tile    of one row, in shared memory: [strips][parts][32 lanes][4 inputs], a strip is what a warp reads of an output at a time. Inputs behind the
///         end are 0.
/// Order   of a sum: a lane adds its products one by one in ascending order, by fused multiply-add; lanes add up as a tree.
namespace refreshlab::kernels::RL_GPU {

/// Numbers in a lane's 16 bytes, and inputs of a strip.
template <WeightType type, MatrixForm form>
inline constexpr int lane_inputs = form == MatrixForm::numbers ? per_vector<type> : numbers_in_vector<form>;
template <WeightType type, MatrixForm form>
inline constexpr int expert_strip_inputs = 32 * lane_inputs<type, form>;

/// A row of a matrix: where it begins; in blocks where its tiles do, and its number in them.
struct ExpertRow {
    const unsigned char* at;
    int output;
};
template <WeightType type, MatrixForm form>
__device__ inline ExpertRow expert_row(const void* matrix, int inputs, int output) {
    const auto* const bytes = static_cast<const unsigned char*>(matrix);
    if constexpr (form == MatrixForm::numbers) {
        return {bytes + int64_t{output} * inputs * static_cast<int>(sizeof(Stored<type>)), 0};
    } else {
        constexpr int outputs = static_cast<int>(block_rows), width = static_cast<int>(block_width);
        return {bytes + int64_t{output / outputs} * (inputs / width) * bytes_in_tile<form>, output % outputs};
    }
}
/// What of a row comes from input `first` on, a multiple of a strip.
template <WeightType type, MatrixForm form>
__device__ inline ExpertRow from_input(const ExpertRow& row, int first) {
    if constexpr (form == MatrixForm::numbers) {
        return {row.at + first * static_cast<int>(sizeof(Stored<type>)), row.output};
    } else {
        return {row.at + first / static_cast<int>(block_width) * bytes_in_tile<form>, row.output};
    }
}
/// Asks for a row, with the lanes of the warp.
template <WeightType type, MatrixForm form>
__device__ inline void prefetch_row(const ExpertRow& row, int inputs) {
    if constexpr (form == MatrixForm::numbers) {
        prefetch_by_warp(row.at, int64_t{inputs} * static_cast<int>(sizeof(Stored<type>)));
    } else {
        constexpr int halves = 32 / lane_inputs<type, form>;
        for (int v = static_cast<int>(threadIdx.x % 32); v < inputs / lane_inputs<type, form>; v += 32)
            prefetch_l2(row.at + v / halves * bytes_in_tile<form> + v % halves * 256 + row.output * 16);
    }
}

/// Where input i of a row stands in the tile, i a multiple of 4.
template <WeightType type, MatrixForm form>
__device__ inline int place_of_input(int i) {
    constexpr int strip = expert_strip_inputs<type, form>, own = lane_inputs<type, form>;
    return i / strip * strip + i % own / 4 * 128 + i % strip / own * 4;
}

/// sums[o] += the warp's rows times the first `inputs` inputs of the tile, a multiple of 16, of 32 in blocks.
template <WeightType type, MatrixForm form, int OUTPUTS>
__device__ inline void add_expert_products(const ExpertRow (&rows)[OUTPUTS], int inputs, const float* tile,
                                           float (&sums)[OUTPUTS]) {
    if constexpr (form == MatrixForm::numbers) {
        const uint4* matrix[OUTPUTS];
#pragma unroll
        for (int o = 0; o < OUTPUTS; ++o)
            matrix[o] = reinterpret_cast<const uint4*>(rows[o].at);
        add_products<type, 1, OUTPUTS>(matrix, inputs / per_vector<type>, tile, sums);
    } else {
        constexpr int own = lane_inputs<type, form>, parts = own / 4, halves = 32 / own;
        const int lane = static_cast<int>(threadIdx.x % 32), vectors = inputs / own;
        for (int first = 0; first < vectors; first += 32) {
            const int v = first + lane;
            uint4 read[OUTPUTS];
            BlockScale scales[OUTPUTS];
#pragma unroll
            for (int o = 0; o < OUTPUTS; ++o) {
                read[o] = make_uint4(0, 0, 0, 0);
                scales[o] = {0, 0}; // all numbers are 0
                if (v >= vectors) continue;
                const unsigned char* const of_block = rows[o].at + v / halves * bytes_in_tile<form>;
                read[o] = __ldg(reinterpret_cast<const uint4*>(of_block + v % halves * 256) + rows[o].output);
                scales[o] = block_scale<form>(of_block, rows[o].output);
            }
            const float4* const x = reinterpret_cast<const float4*>(tile) + first * parts + lane;
#pragma unroll
            for (int part = 0; part < parts; ++part) {
                const float4 four = x[part * 32];
#pragma unroll
                for (int o = 0; o < OUTPUTS; ++o) {
                    float w[4];
                    unpack_block<form>(read[o], part, scales[o], w);
                    sums[o] = fmaf(w[0], four.x, sums[o]);
                    sums[o] = fmaf(w[1], four.y, sums[o]);
                    sums[o] = fmaf(w[2], four.z, sums[o]);
                    sums[o] = fmaf(w[3], four.w, sums[o]);
                }
            }
        }
    }
}

} // namespace refreshlab::kernels::RL_GPU
