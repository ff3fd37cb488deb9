#pragma once

#include "kernels/cuda/decode/row_products.cuh"
#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/rows/rounded.cuh"

/// Products of the token's row and of MC rows with rows of a matrix, which is read once for all of them: what norm_product, norm_gate_up,
/// product_onto and head do where a step has MC rows.
///
///   sums[o][r] = sum_i matrix[o, i] * in[r, i]            (with a norm: in[r, i] * norm[i], and the row's factor afterwards)
///
/// Block   16 warps in two halves. A half has TILES tiles of 8 outputs, and its 8 warps share out their inputs: of a strip (256 inputs of
///         16-bit weights, 128 in f32) warp w has an eighth. Lane 4 g + t holds 16 bytes of output g of each tile, vector 4 w + t of a
///         strip: what a tensor core takes as its operand of 8 columns, and what the token's row multiplies by fp32 units. Further blocks
///         (grid x) have further MC rows, and no token.
/// Rows    The token's row has the sums of row_products.cuh to the bit: there lane 4 w + t of a warp has these inputs. MC rows go by tensor
///         cores: eight of them are the operand of 16 rows, once rounded to the weights' type and once what rounding took away. The two
///         parts keep 16 bits of bf16 and 22 of f16, so an MC row differs from the same row in fp32 by 1e-5 and less, where one part
///         rounds every number by up to 2^-9 (bf16), which the variance over MC rows would have in it. Parts of f16 are scaled by powers of two: numbers up to
///         4e6 do not overflow, and what is left of small ones does not vanish. In f32 MC rows are the token's in every respect.
/// Tile    [ROWS][inputs / 4] of 16 bytes: four numbers of the token (in f32 of every row); of an MC row their first parts, then their second
///         ones. Units of 16 bytes stand exchanged by pairs in rows of odd number, so that lanes of neighbouring rows meet in no bank.
/// Order   of an MC row's sum: a warp's inputs ascend in steps of 16 that a tensor core adds to the accumulator (fp32); then first parts
///         plus second parts; then warps ascending. Nothing of it hangs on ROWS, TILES, the tile's length, or which rows are beside it.
/// Source  PTX ISA 9.0, section 9.7.14.5; splitting: Markidis et al. 2018, "NVIDIA tensor core programmability, performance & precision".
namespace refreshlab::kernels::RL_GPU {

inline constexpr int mc_threads = 32 * static_cast<int>(decode::mc_product_warps);
inline constexpr int half_warps = static_cast<int>(decode::product_warps), half_threads = 32 * half_warps;
static_assert(mc_threads == 2 * half_threads);

/// Threads of a block, and blocks that a multiprocessor shall hold.
template <int ROWS>
inline constexpr int product_block = ROWS == 1 ? product_threads : mc_threads;
template <int ROWS>
inline constexpr int product_blocks = ROWS == 1 ? 2 : 1;

/// Inputs of a row in the tile.
template <int ROWS>
inline constexpr int mc_tile_inputs = static_cast<int>(decode::mc_product_tile(ROWS));

template <WeightType type>
inline constexpr bool on_tensor_cores = type != WeightType::f32;

/// What parts of activations are multiplied by: x = (first + rest / rest_scale) / first_scale.
template <WeightType type>
inline constexpr float first_scale = type == WeightType::f16 ? 1.0F / 64 : 1.0F;
template <WeightType type>
inline constexpr float rest_scale = type == WeightType::f16 ? 2048.0F : 1.0F;

/// First parts of four numbers, then their second ones.
template <WeightType type>
__device__ inline uint4 in_two_parts(float4 x) {
    constexpr float scale = first_scale<type>, up = rest_scale<type>;
    const auto rest = [](float number, uint32_t rounded) {
        return (number - to_float<type>(static_cast<uint16_t>(rounded & 0xFFFFU))) * up;
    };
    x = make_float4(x.x * scale, x.y * scale, x.z * scale, x.w * scale);
    const uint32_t low = rounded_pair<type>(x.x, x.y), high = rounded_pair<type>(x.z, x.w);
    return make_uint4(low, high, rounded_pair<type>(rest(x.x, low), rest(x.y, low >> 16)),
                      rounded_pair<type>(rest(x.z, high), rest(x.w, high >> 16)));
}

/// Rows of a block: number 0 is the token, where the block has it; the others are MC rows first + 1, first + 2, ...
struct McRows {
    int first, live; ///< live: MC rows that are there
    bool token;
    __device__ bool has(int r) const { return r == 0 ? token : r <= live; }
};
template <int ROWS>
__device__ inline McRows mc_rows_of_block(const StepState* state, int rows) {
    const int first = static_cast<int>(blockIdx.x) * (ROWS - 1);
    return {first, live_rows(state, rows, first + 1, ROWS - 1), first == 0};
}

/// A lane's sums. Of the token, and in f32 of every row: of output g of each tile, over the inputs of the lane. By tensor cores: of a
/// group of 8 rows and a tile as mma_m16n8k16 has them, first parts in [0] and [1], second ones in [2] and [3].
template <WeightType type, int ROWS, int TILES>
struct McSums {
    static constexpr int groups = (ROWS - 1) / 8;
    float token[TILES];
    float rows[groups][TILES][on_tensor_cores<type> ? 4 : 8];
};

/// Where unit u of row r stands in the tile.
template <WeightType type>
__device__ inline int unit_of(int r, int u) {
    return on_tensor_cores<type> ? u ^ (r & 1) : u;
}

/// The tile's inputs [begin, begin + length) of all rows; zeros where there is no row or no input. A half of the block brings every second
/// row, by the threads that row_products.cuh has for it, so the squares that are added up are the same.
template <WeightType type, int ROWS, bool normed>
__device__ inline void fill_mc_tile(const InputRows& in, const McRows& rows, int begin, int length, int units,
                                    uint4* tile, float (&squares)[(ROWS + 1) / 2]) {
    constexpr int own = (ROWS + 1) / 2, at_once = ROWS <= 9 ? 5 : 3;
    const int half = static_cast<int>(threadIdx.x) / half_threads;
    // Whatever `begin` is, a thread has every 1,024th input of the row.
    static_assert(half_threads == 256);
    for (int u = (static_cast<int>(threadIdx.x) - begin / 4) & 255; u < units; u += half_threads) {
        const bool inside = u * 4 < length;
        float4 norm = make_float4(1, 1, 1, 1);
        if (normed && in.norm && inside) norm = four_weights_at<type>(in.norm, begin + u * 4);
#pragma unroll
        for (int k = 0; k < own; k += at_once) {
            float4 x[at_once];
#pragma unroll
            for (int i = 0; i < at_once; ++i) {
                const int r = half + 2 * (k + i);
                x[i] = make_float4(0, 0, 0, 0);
                if (inside && k + i < own && r < ROWS && rows.has(r))
                    x[i] = __ldcg(reinterpret_cast<const float4*>(
                        in.rows + int64_t{rows.first + r} * in.inputs + begin + u * 4));
            }
#pragma unroll
            for (int i = 0; i < at_once; ++i) {
                const int r = half + 2 * (k + i);
                if (k + i >= own || r >= ROWS) break;
                if constexpr (normed) {
                    float& square = squares[k + i];
                    square = fmaf(x[i].x, x[i].x, square);
                    square = fmaf(x[i].y, x[i].y, square);
                    square = fmaf(x[i].z, x[i].z, square);
                    square = fmaf(x[i].w, x[i].w, square);
                    x[i] = make_float4(__fmul_rn(x[i].x, norm.x), __fmul_rn(x[i].y, norm.y),
                                       __fmul_rn(x[i].z, norm.z), __fmul_rn(x[i].w, norm.w));
                }
                uint4* const to = tile + r * units + unit_of<type>(r, u);
                if constexpr (on_tensor_cores<type>) {
                    if (r > 0) {
                        *to = in_two_parts<type>(x[i]);
                        continue;
                    }
                }
                *reinterpret_cast<float4*>(to) = x[i];
            }
        }
    }
}

/// sum += the lane's vector of weights times the row's inputs, ascending.
template <WeightType type>
__device__ inline void add_vector(const uint4& weights, const float4 (&x)[per_vector<type> / 4], float& sum) {
#pragma unroll
    for (int part = 0; part < per_vector<type> / 4; ++part) {
        float w[4];
        unpack<type>(weights, part, w);
        sum = fmaf(w[0], x[part].x, sum);
        sum = fmaf(w[1], x[part].y, sum);
        sum = fmaf(w[2], x[part].z, sum);
        sum = fmaf(w[3], x[part].w, sum);
    }
}

/// The lane's vector of a strip, number `unit` of the tile on, of all rows and tiles.
template <WeightType type, int ROWS, int TILES>
__device__ inline void add_mc_strip(const uint4 (&weights)[TILES], const McRows& rows, const uint4* tile,
                                    int units, int unit, McSums<type, ROWS, TILES>& sums) {
    constexpr int parts = per_vector<type> / 4;
    const auto numbers = [&](int r, float4(&x)[parts]) {
#pragma unroll
        for (int part = 0; part < parts; ++part)
            x[part] = *reinterpret_cast<const float4*>(tile + r * units + unit + part);
    };
    if (rows.token) {
        float4 x[parts];
        numbers(0, x);
#pragma unroll
        for (int n = 0; n < TILES; ++n)
            add_vector<type>(weights[n], x, sums.token[n]);
    }
#pragma unroll
    for (int group = 0; group < sums.groups; ++group) {
        if (group * 8 >= rows.live) break;
        if constexpr (on_tensor_cores<type>) {
            constexpr bool bf16 = type == WeightType::bf16;
            const int r = 1 + group * 8 + static_cast<int>(threadIdx.x) % 32 / 4;
            const uint4 first = tile[r * units + unit_of<type>(r, unit)],
                        second = tile[r * units + unit_of<type>(r, unit + 1)];
            const uint32_t a[4] = {first.x, first.z, first.y, first.w},
                           b[4] = {second.x, second.z, second.y, second.w};
#pragma unroll
            for (int n = 0; n < TILES; ++n) {
                const uint32_t low[2] = {weights[n].x, weights[n].y}, high[2] = {weights[n].z, weights[n].w};
                mma_m16n8k16<bf16>(sums.rows[group][n], a, low);
                mma_m16n8k16<bf16>(sums.rows[group][n], b, high);
            }
        } else {
#pragma unroll
            for (int r = 0; r < 8; ++r) {
                float4 x[parts];
                numbers(1 + group * 8 + r, x);
#pragma unroll
                for (int n = 0; n < TILES; ++n)
                    add_vector<type>(weights[n], x, sums.rows[group][n][r]);
            }
        }
    }
}

/// A lane's sums over all inputs. All threads of the block come here.
/// \param matrix   vector 0 of output g of each tile
/// \param squares  of all rows; null without norm
template <WeightType type, int ROWS, int TILES, bool normed>
__device__ inline void multiply_mc(const InputRows& in, const McRows& rows,
                                   const uint4* const (&matrix)[TILES], uint4* tile,
                                   SquareParts<ROWS>* squares, McSums<type, ROWS, TILES>& sums) {
    constexpr int most = mc_tile_inputs<ROWS>, at_once = ROWS <= 9 ? 2 : 1;
    constexpr int strip = strip_inputs<type>, units_of_vector = per_vector<type> / 4;
    const int lane = static_cast<int>(threadIdx.x) % 32, half = static_cast<int>(threadIdx.x) / half_threads,
              warp = static_cast<int>(threadIdx.x) % half_threads / 32, vector = 4 * warp + lane % 4;
    float mine[(ROWS + 1) / 2] = {};
    for (int begin = 0; begin < in.inputs; begin += most) {
        const int length = in.inputs - begin < most ? in.inputs - begin : most;
        const int strips = (length + strip - 1) / strip, units = strips * strip / 4;
        if (begin > 0) __syncthreads(); // all warps are through with what stood there
        fill_mc_tile<type, ROWS, normed>(in, rows, begin, length, units, tile, mine);
        if (normed && begin + length == in.inputs) {
#pragma unroll
            for (int k = 0; k < (ROWS + 1) / 2; ++k) {
                const float sum = warp_sum(mine[k]);
                if (lane == 0 && half + 2 * k < ROWS) squares->of[half + 2 * k][warp] = sum;
            }
        }
        __syncthreads();
        const int first = begin / per_vector<type>, vectors = length / per_vector<type>;
        for (int s = 0; s < strips; s += at_once) {
            uint4 weights[at_once][TILES];
#pragma unroll
            for (int i = 0; i < at_once; ++i) {
                const int v = (s + i) * 32 + vector;
#pragma unroll
                for (int n = 0; n < TILES; ++n)
                    weights[i][n] = v < vectors ? __ldg(matrix[n] + first + v) : make_uint4(0, 0, 0, 0);
            }
#pragma unroll
            for (int i = 0; i < at_once; ++i) {
                if (s + i >= strips) break;
                add_mc_strip<type, ROWS, TILES>(weights[i], rows, tile, units,
                                                ((s + i) * 32 + vector) * units_of_vector, sums);
            }
        }
    }
}

/// Where the lane's output of each tile begins; and what the block multiplies is asked for, each warp of a half an eighth of it.
/// matrix_of(tile, output) is vector 0 of an output, below 8, of the half's tile.
template <WeightType type, int TILES, typename MatrixOf>
__device__ inline void start_mc(const MatrixOf& matrix_of, int inputs, const uint4* (&matrix)[TILES]) {
    const int warp = static_cast<int>(threadIdx.x) % half_threads / 32;
#pragma unroll
    for (int n = 0; n < TILES; ++n) {
        matrix[n] = matrix_of(n, static_cast<int>(threadIdx.x) % 32 / 4);
        prefetch_by_warp(matrix_of(n, warp), int64_t{inputs} * static_cast<int>(sizeof(Stored<type>)));
    }
}

/// Sums of the half's warps change hands in shared memory. All threads of the block come here, as often as each other.
/// put(n, place) lays number n of COUNT down for the lane; take(n, of_warp) is called by one warp of the half for each number n that is
/// a multiple of STEP, and of_warp(k, w) gives it what this lane of warp w laid down of number n + k.
template <int COUNT, int STEP, typename Put, typename Take>
__device__ inline void exchange_sums(float* memory, const Put& put, const Take& take) {
    const int lane = static_cast<int>(threadIdx.x) % 32, half = static_cast<int>(threadIdx.x) / half_threads,
              warp = static_cast<int>(threadIdx.x) % half_threads / 32;
    float* const of_half = memory + half * half_warps * COUNT * 32 + lane;
    __syncthreads(); // nobody reads any more what stood there
#pragma unroll
    for (int n = 0; n < COUNT; ++n)
        of_half[(warp * COUNT + n) * 32] = put(n);
    __syncthreads();
    for (int n = warp * STEP; n < COUNT; n += half_warps * STEP)
        take(n, [&](int k, int w) { return of_half[(w * COUNT + n + k) * 32]; });
}

/// Of lanes' sums over their own inputs the sum that warp_sum makes of the 32 lanes of row_products.cuh; in the four lanes of an output.
template <typename OfWarp>
__device__ inline float sum_of_lanes(const OfWarp& of_warp, int k) {
    const auto pair = [&](int w) { return __fadd_rn(of_warp(k, w), of_warp(k, w + 4)); };
    float sum = __fadd_rn(__fadd_rn(pair(0), pair(2)), __fadd_rn(pair(1), pair(3)));
    sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFU, sum, 2));
    return __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFU, sum, 1));
}
template <typename OfWarp>
__device__ inline float sum_of_warps(const OfWarp& of_warp, int k) {
    float sum = of_warp(k, 0);
#pragma unroll
    for (int w = 1; w < half_warps; ++w)
        sum = __fadd_rn(sum, of_warp(k, w));
    return sum;
}

/// Hands out the finished sums: finish(r, o, values), r the block's row, o an output of the half's, below 8 TILES / MATRICES, and its sum for
/// each of MATRICES matrices, whose tiles stand in turn. Rows that are not there are left out.
template <int MATRICES, WeightType type, int ROWS, int TILES, typename Finish>
__device__ inline void finish_mc(const McRows& rows, const McSums<type, ROWS, TILES>& sums, float* memory,
                                 const Finish& finish) {
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
    // A row whose lanes have an output each: four of them the same.
    const auto finish_row = [&](int r, const auto& put) {
        exchange_sums<TILES, MATRICES>(memory, put, [&](int n, const auto& of_warp) {
            float values[MATRICES];
#pragma unroll
            for (int k = 0; k < MATRICES; ++k)
                values[k] = sum_of_lanes(of_warp, k);
            if (t == 0) finish(r, n / MATRICES * 8 + g, values);
        });
    };
    if (rows.token) finish_row(0, [&](int n) { return sums.token[n]; });
#pragma unroll
    for (int group = 0; group < sums.groups; ++group) {
        if (group * 8 >= rows.live) break;
        if constexpr (on_tensor_cores<type>) {
            // Number (tile, j, matrix): row g and column 2 t + j of the tile.
            const auto put = [&](int n) {
                const int j = n / MATRICES % 2, tile = n / (2 * MATRICES) * MATRICES + n % MATRICES;
                const float(&d)[4] = sums.rows[group][tile];
                return fmaf(d[2 + j], 1 / rest_scale<type>, d[j]);
            };
            exchange_sums<2 * TILES, MATRICES>(memory, put, [&](int n, const auto& of_warp) {
                const int r = 1 + group * 8 + g, o = n / (2 * MATRICES) * 8 + 2 * t + n / MATRICES % 2;
                float values[MATRICES];
#pragma unroll
                for (int k = 0; k < MATRICES; ++k)
                    values[k] = sum_of_warps(of_warp, k) * (1 / first_scale<type>);
                if (r <= rows.live) finish(r, o, values);
            });
        } else {
#pragma unroll
            for (int r = 0; r < 8; ++r) {
                if (group * 8 + r >= rows.live) break;
                finish_row(1 + group * 8 + r, [&](int n) { return sums.rows[group][n][r]; });
            }
        }
    }
}

/// A block's product with MC rows, from the first read of the matrices to the last output.
/// \tparam TILES  of 8 outputs of a half of the block, those of MATRICES matrices in turn
/// \param launched  rows of the launch. width, eps: of the norm, if there is one
/// \param row_of    (matrix, output) -> vector 0 of that output
/// \param finish    (row, output, a sum for each matrix, the row's factor, 1 without a norm)
template <WeightType type, int ROWS, int TILES, int MATRICES, bool normed, typename RowOf, typename Finish>
__device__ inline void multiply_with_mc(const StepState* state, const InputRows& in, int launched,
                                        float width, float eps, const RowOf& row_of, const Finish& finish) {
    const int half = static_cast<int>(threadIdx.x) / half_threads;
    const int first = (2 * static_cast<int>(blockIdx.y) + half) * (8 * TILES / MATRICES);
    const uint4* matrix[TILES];
    start_mc<type>(
        [&](int tile, int output) { return row_of(tile % MATRICES, first + tile / MATRICES * 8 + output); },
        in.inputs, matrix);
    grid_dependency_wait();
    const McRows rows = mc_rows_of_block<ROWS>(state, launched);
    if (!rows.token && rows.live <= 0) return;
    SquareParts<ROWS>* squares = nullptr;
    if constexpr (normed) {
        __shared__ SquareParts<ROWS> of_block;
        squares = &of_block;
    }
    McSums<type, ROWS, TILES> sums = {};
    multiply_mc<type, ROWS, TILES, normed>(in, rows, matrix, dynamic_shared<uint4>(), squares, sums);
    finish_mc<MATRICES>(rows, sums, dynamic_shared<float>(), [&](int r, int output, const auto& of_matrices) {
        float factor = 1;
        if constexpr (normed) factor = inverse_rms(in.norm, *squares, r, width, eps);
        finish(rows.first + r, first + output, of_matrices, factor);
    });
}

} // namespace refreshlab::kernels::RL_GPU
