#pragma once

#include "kernels/cuda/decode/expert_products.cuh"
#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/rows/rounded_blocks.cuh"

/// Products of the rows that are sent to an expert with its matrices, by tensor cores: what expert_rows_gate_up and expert_rows_down have in common.
///
/// Block   8 warps, each with 16 rows of the expert's matrices (8 of gate and the same of up; or 16 of down), which it multiplies with all rows that
///         are sent to the expert: 32 at a time while there are more than 16 left, else 16; a matrix is read again
///         for the next 32, from the second cache. The blocks of an expert without rows end at once.
/// Rows    each block finds its expert's rows itself, in ascending order: a thread looks at a row's choices, and votes number those that are found.
/// Lanes   rows of activations are the tensor cores' operand of 16 rows, weights that of 8 columns. Lane 4 g + t holds 16 bytes of output g and of
///         rows g and g + 8: inputs 8 t to 8 t + 7 of 32. The tensor core's own order of inputs is another, the same on both sides. All
///         operands come from memory into registers (blocks are rounded to the type there); the warps of a block read the same activations, from the first cache.
/// Order   of a sum: inputs ascend in steps of 16 (even pairs of eight bytes of 32 inputs, then odd ones), which a tensor core adds to the accumulator.
///         Nothing of it hangs on which rows are beside.
/// Source  PTX ISA 9.0, section 9.7.14.5.
namespace refreshlab::kernels::RL_GPU {

inline constexpr int expert_rows_threads = 32 * static_cast<int>(decode::expert_rows_warps);
inline constexpr int most_rows = static_cast<int>(most_pass_rows);

struct ExpertRows {
    const ExpertMatrices* experts;
    const RoutedExpert* routed;
    int used, expert_width, hidden, rows;
    const void* h;
    void* inner;
    float* sums;
    Activation activation;
};
[[nodiscard]] inline ExpertRows expert_rows_of(const ExpertRowsInputs& in) {
    RL_ASSERT(in.rows > 0 && in.rows <= most_pass_rows && in.used > 0 && in.used <= in.count);
    RL_ASSERT(in.hidden % 16 == 0 && in.expert_width % 16 == 0 && in.type != WeightType::f32);
    return {in.experts,
            in.routed,
            static_cast<int>(in.used),
            static_cast<int>(in.expert_width),
            static_cast<int>(in.hidden),
            static_cast<int>(in.rows),
            in.h,
            in.inner,
            in.sums,
            in.activation};
}
/// with_form() for types of 16 bits.
template <typename Body>
void with_half_type(WeightType type, MatrixForm form, const Body& body) {
    with_form(type, form, [&]<WeightType t, MatrixForm f>() {
        if constexpr (t != WeightType::f32) body.template operator()<t, f>();
    });
}

/// Where the rows of the block's expert stand among all choices: row * used + k.
struct PlacesOfExpert {
    int of[most_rows];
    int in_warp[most_rows / 32]; ///< rows found by each warp, in each turn
};
/// \return how many. All threads of the block come here
__device__ inline int find_places(const ExpertRows& p, int expert, PlacesOfExpert& places) {
    constexpr int turns = most_rows / expert_rows_threads, warps = expert_rows_threads / 32;
    const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
    int found[turns];
    unsigned votes[turns];
#pragma unroll
    for (int turn = 0; turn < turns; ++turn) {
        const int row = turn * expert_rows_threads + thread;
        found[turn] = -1;
        for (int k = 0; row < p.rows && k < p.used; ++k)
            if (__ldcg(&p.routed[row * p.used + k].expert) == expert) found[turn] = row * p.used + k;
        votes[turn] = __ballot_sync(0xFFFFFFFFU, found[turn] >= 0);
        if (thread % 32 == 0) places.in_warp[turn * warps + warp] = __popc(votes[turn]);
    }
    __syncthreads();
    int count = 0;
    for (int w = 0; w < turns * warps; ++w) {
#pragma unroll
        for (int turn = 0; turn < turns; ++turn)
            if (w == turn * warps + warp && found[turn] >= 0)
                places.of[count + __popc(votes[turn] & ((1U << (thread % 32)) - 1))] = found[turn];
        count += places.in_warp[w];
    }
    __syncthreads();
    return count;
}

/// Inputs 8 v to 8 v + 7 of a row of the matrix, v = t modulo 4.
template <WeightType type, MatrixForm form>
__device__ inline uint4 expert_weights(const ExpertRow& row, int v, int t) {
    if constexpr (form == MatrixForm::numbers) {
        return __ldg(reinterpret_cast<const uint4*>(row.at) + v);
    } else {
        return weights_of_block<type, form>(row.at + v / 4 * bytes_in_tile<form>, row.output, t);
    }
}

/// sums[m][n] += 16 rows times 8 outputs each, MT and NT of them.
/// \param matrix  of the lane's output of each 8. \param row_of  i-th row of activations, null where there is none
template <WeightType type, MatrixForm form, int MT, int NT, typename RowOf>
__device__ inline void multiply_expert(const ExpertRow (&matrix)[NT], const RowOf& row_of, int inputs,
                                       float (&sums)[MT][NT][4]) {
    constexpr bool bf16 = type == WeightType::bf16;
    constexpr int at_once = MT == 1 ? 4 : 2;
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
    const uint4* rows[MT][2];
#pragma unroll
    for (int m = 0; m < MT; ++m) {
        rows[m][0] = row_of(16 * m + g);
        rows[m][1] = row_of(16 * m + g + 8);
    }
    const int vectors = inputs / 8;
    for (int first = 0; first < vectors; first += 4 * at_once) {
        uint4 weights[at_once][NT];
#pragma unroll
        for (int s = 0; s < at_once; ++s)
#pragma unroll
            for (int n = 0; n < NT; ++n)
                weights[s][n] = first + 4 * s + t < vectors
                                    ? expert_weights<type, form>(matrix[n], first + 4 * s + t, t)
                                    : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int s = 0; s < at_once; ++s) {
            const int v = first + 4 * s + t;
            if (first + 4 * s >= vectors) break;
#pragma unroll
            for (int m = 0; m < MT; ++m) {
                uint4 x[2];
#pragma unroll
                for (int i = 0; i < 2; ++i)
                    x[i] = rows[m][i] != nullptr && v < vectors ? rows[m][i][v] : make_uint4(0, 0, 0, 0);
                const uint32_t low[4] = {x[0].x, x[1].x, x[0].y, x[1].y},
                               high[4] = {x[0].z, x[1].z, x[0].w, x[1].w};
#pragma unroll
                for (int n = 0; n < NT; ++n) {
                    const uint32_t even[2] = {weights[s][n].x, weights[s][n].y},
                                   odd[2] = {weights[s][n].z, weights[s][n].w};
                    mma_m16n8k16<bf16>(sums[m][n], low, even);
                    mma_m16n8k16<bf16>(sums[m][n], high, odd);
                }
            }
        }
    }
}

/// All rows of the expert, in turns.
/// \param row_of  place -> row of activations. \param finish  (place, the lane's outputs 2 t and 2 t + 1 of each 8: [NT][2])
template <WeightType type, MatrixForm form, int NT, typename RowOf, typename Finish>
__device__ inline void multiply_rows_of_expert(const ExpertRow (&matrix)[NT], const PlacesOfExpert& places,
                                               int count, int inputs, const RowOf& row_of,
                                               const Finish& finish) {
    const int g = static_cast<int>(threadIdx.x) % 32 / 4;
    const auto some = [&]<int MT>(int begin) {
        float sums[MT][NT][4] = {};
        multiply_expert<type, form, MT, NT>(
            matrix,
            [&](int i) -> const uint4* { return begin + i < count ? row_of(places.of[begin + i]) : nullptr; },
            inputs, sums);
#pragma unroll
        for (int m = 0; m < MT; ++m) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int i = begin + 16 * m + 8 * half + g;
                if (i >= count) continue;
                float pairs[NT][2];
#pragma unroll
                for (int n = 0; n < NT; ++n) {
                    pairs[n][0] = sums[m][n][2 * half];
                    pairs[n][1] = sums[m][n][2 * half + 1];
                }
                finish(places.of[i], pairs);
            }
        }
    };
    constexpr int tiles = static_cast<int>(decode::expert_row_tiles);
    int begin = 0;
    for (; count - begin > 16; begin += 16 * tiles)
        some.template operator()<tiles>(begin);
    if (begin < count) some.template operator()<1>(begin);
}

} // namespace refreshlab::kernels::RL_GPU
