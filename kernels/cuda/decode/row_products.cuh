#pragma once

#include "kernels/cuda/decode/steps.cuh"
#include "kernels/cuda/decode/weights.cuh"

/// Products of up to eight rows with rows of a matrix: what norm_product, norm_gate_up, product_onto and head have in common.
///
///   sums[o][r] = sum_i matrix[o, i] * in[r, i]            (with a norm: in[r, i] * norm[i], and the row's factor afterwards)
///
/// Block   8 warps, which share the rows of inputs in shared memory; a warp makes OUTPUTS rows of the matrix at a time for all ROWS
///         rows, so that a weight is read once. A lane reads 16 bytes of a row of the matrix, the warp 512 bytes side by side, and
///         OUTPUTS * strips_at_once such reads are under way at once.
/// Tile    [strips][ROWS][strip]: a strip is what a warp reads of one row at a time, 256 inputs of 16-bit weights, 128 in f32. Within a
///         strip of 256 the first four inputs of every lane stand before the second four: neighbouring lanes read neighbouring
///         16 bytes, which no two banks collide in. Inputs behind the end are 0.
/// Order   of a sum: a lane adds its products one by one in ascending order, by fused multiply-add; lanes add up as a tree
///         (warp_sums). Nothing of it hangs on ROWS, OUTPUTS, strips_at_once or the tile's length, so a row has the same bits in every block.
/// Norm    x / rms(x) * norm is a factor of the row times x * norm. Blocks sum the squares as they bring the row into the tile and
///         multiply at the end: a row is read once and waited for once.
namespace refreshlab::kernels::RL_GPU {

inline constexpr int product_threads = 32 * static_cast<int>(decode::product_warps);

/// Inputs that the lanes of a warp hold a vector of.
template <WeightType type>
inline constexpr int strip_inputs = 32 * per_vector<type>;

/// Inputs of a row in the tile.
template <int ROWS>
inline constexpr int tile_inputs = static_cast<int>(decode::product_tile(ROWS));
/// Reads in flight of a lane: eight for few rows; for many, registers hold their sums.
template <int ROWS, int OUTPUTS>
inline constexpr int strips_at_once = (ROWS <= 2 ? 8 : 4) / OUTPUTS;

/// Asks for `bytes` bytes, with the lanes of a warp.
__device__ inline void prefetch_by_warp(const void* from, int64_t bytes) {
    const auto* const first = static_cast<const unsigned char*>(from);
    for (int64_t at = static_cast<int64_t>(threadIdx.x % 32) * 128; at < bytes; at += 32 * 128)
        prefetch_l2(first + at);
}

/// Row `output` of a matrix.
template <WeightType type>
__device__ inline const uint4* matrix_row(const void* data, int64_t inputs, int64_t output) {
    return reinterpret_cast<const uint4*>(static_cast<const Stored<type>*>(data) + output * inputs);
}

/// Rows of activations, and what is done to them on the way into the tile.
struct InputRows {
    const float* rows = nullptr; ///< the block's first, [live, inputs]
    int inputs = 0;
    NormWeights norm{}; ///< [inputs] or none
};

/// Static shared memory of a product with a norm: each warp's share of the squares.
template <int ROWS>
struct SquareParts {
    float of[ROWS][decode::product_warps];
};

/// The tile's inputs [begin, begin + length) of all rows; zeros where there is no row or no input. Squares of what was read are added.
template <WeightType type, int ROWS, bool normed>
__device__ inline void fill_tile(const InputRows& in, int live, int begin, int length, float* tile,
                                 float (&squares)[ROWS]) {
    constexpr int strip = strip_inputs<type>;
    const int padded = (length + strip - 1) / strip * strip;
    for (int i = static_cast<int>(threadIdx.x) * 4; i < padded; i += product_threads * 4) {
        const bool inside = i < length;
        float4 norm = make_float4(1, 1, 1, 1);
        if (normed && in.norm && inside) norm = four_weights_at<type>(in.norm, begin + i);
        const int within = i % strip;
        const int place = type == WeightType::f32 ? within : (within / 4) % 2 * (strip / 2) + within / 8 * 4;
        float* const to = tile + i / strip * ROWS * strip + place;
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            float4 x = make_float4(0, 0, 0, 0);
            if (inside && r < live) {
                x = __ldcg(reinterpret_cast<const float4*>(in.rows + int64_t{r} * in.inputs + begin + i));
                if constexpr (normed) {
                    squares[r] = fmaf(x.x, x.x, squares[r]);
                    squares[r] = fmaf(x.y, x.y, squares[r]);
                    squares[r] = fmaf(x.z, x.z, squares[r]);
                    squares[r] = fmaf(x.w, x.w, squares[r]);
                    x = make_float4(x.x * norm.x, x.y * norm.y, x.z * norm.z, x.w * norm.w);
                }
            }
            *reinterpret_cast<float4*>(to + r * strip) = x;
        }
    }
}

/// sums[o * ROWS + r] += one strip.
template <WeightType type, int ROWS, int OUTPUTS>
__device__ inline void add_strip(const uint4 (&weights)[OUTPUTS], const float* strip,
                                 float (&sums)[OUTPUTS * ROWS]) {
    constexpr int parts = per_vector<type> / 4;
    const float* const mine = strip + threadIdx.x % 32 * 4;
#pragma unroll
    for (int part = 0; part < parts; ++part) {
        float w[OUTPUTS][4];
#pragma unroll
        for (int o = 0; o < OUTPUTS; ++o)
            unpack<type>(weights[o], part, w[o]);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const float4 x = *reinterpret_cast<const float4*>(mine + r * strip_inputs<type> + part * 128);
#pragma unroll
            for (int o = 0; o < OUTPUTS; ++o) {
                sums[o * ROWS + r] = fmaf(w[o][0], x.x, sums[o * ROWS + r]);
                sums[o * ROWS + r] = fmaf(w[o][1], x.y, sums[o * ROWS + r]);
                sums[o * ROWS + r] = fmaf(w[o][2], x.z, sums[o * ROWS + r]);
                sums[o * ROWS + r] = fmaf(w[o][3], x.w, sums[o * ROWS + r]);
            }
        }
    }
}

/// Products of the warp's rows of the matrix with what stands in the tile.
/// \param matrix  vector 0 of each row's share in the tile. \param vectors  of that share
template <WeightType type, int ROWS, int OUTPUTS>
__device__ inline void add_products(const uint4* const (&matrix)[OUTPUTS], int vectors, const float* tile,
                                    float (&sums)[OUTPUTS * ROWS]) {
    constexpr int at_once = strips_at_once<ROWS, OUTPUTS>;
    const int lane = static_cast<int>(threadIdx.x % 32);
    for (int first = 0; first * 32 < vectors; first += at_once) {
        uint4 weights[at_once][OUTPUTS];
#pragma unroll
        for (int s = 0; s < at_once; ++s) {
            const int v = (first + s) * 32 + lane;
#pragma unroll
            for (int o = 0; o < OUTPUTS; ++o)
                weights[s][o] = v < vectors ? __ldg(matrix[o] + v) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int s = 0; s < at_once; ++s) {
            if ((first + s) * 32 >= vectors) break;
            add_strip<type, ROWS, OUTPUTS>(weights[s], tile + (first + s) * ROWS * strip_inputs<type>, sums);
        }
    }
}

/// All products of the warp's OUTPUTS rows with the block's rows, added up: a lane gets the one that Share says. All threads of the block
/// come here, as often as each other.
/// \param fill     the tile does not yet hold what the last call, of the same rows, left there
/// \param squares  [ROWS][warps], null without norm: filled in the first call, and to be read after any
template <WeightType type, int ROWS, int OUTPUTS, bool normed>
__device__ inline float multiply(const InputRows& in, int live, const uint4* const (&matrix)[OUTPUTS],
                                 float* tile, bool fill, SquareParts<ROWS>* squares) {
    constexpr int most = tile_inputs<ROWS>;
    const int lane = static_cast<int>(threadIdx.x % 32);
    float mine[ROWS] = {}, sums[OUTPUTS * ROWS] = {};
    const bool whole = in.inputs <= most;
    for (int begin = 0; begin < in.inputs; begin += most) {
        const int length = in.inputs - begin < most ? in.inputs - begin : most;
        if (fill || !whole) {
            if (begin > 0 || !fill) __syncthreads(); // all warps are through with what stood there
            fill_tile<type, ROWS, normed>(in, live, begin, length, tile, mine);
            if (normed && fill && begin + length == in.inputs) {
                const float sum = warp_sums(mine);
                if (lane % lanes_of_sum<ROWS> == 0)
                    squares->of[lane / lanes_of_sum<ROWS>][threadIdx.x / 32] = sum;
            }
            __syncthreads();
        }
        const uint4* share[OUTPUTS];
#pragma unroll
        for (int o = 0; o < OUTPUTS; ++o)
            share[o] = matrix[o] + begin / per_vector<type>;
        add_products<type, ROWS, OUTPUTS>(share, length / per_vector<type>, tile, sums);
    }
    return warp_sums(sums);
}

/// Whose sum a lane has: of row `output` of the warp's OUTPUTS, and of row `row` of the block's. The first of the lanes that have it
/// writes.
template <int ROWS, int OUTPUTS>
struct Share {
    static constexpr int lanes = lanes_of_sum<OUTPUTS * ROWS>;
    int output, row;
    bool writes;
    __device__ Share()
        : output(static_cast<int>(threadIdx.x % 32) / lanes / ROWS)
        , row(static_cast<int>(threadIdx.x % 32) / lanes % ROWS)
        , writes(threadIdx.x % lanes == 0) {}
};

/// 1 / sqrt(mean of squares + eps) of row r, 1 without a norm: warps in ascending order. Source: Zhang and Sennrich 2019.
template <int ROWS>
__device__ inline float inverse_rms(const NormWeights& norm, const SquareParts<ROWS>& squares, int r,
                                    float width, float eps) {
    if (!norm) return 1;
    float sum = 0;
#pragma unroll
    for (int w = 0; w < static_cast<int>(decode::product_warps); ++w)
        sum = __fadd_rn(sum, squares.of[r][w]);
    return 1.0F / sqrtf(__fadd_rn(sum / width, eps));
}

/// Calls body.template operator()<ROWS or 1>(live), or nothing where no row is live. A block whose rows but one are not there, as the
/// second of nine rows, takes the way of one row.
template <int ROWS, typename Body>
__device__ inline void with_live_rows(int live, const Body& body) {
    if (live <= 0) return;
    if (ROWS > 1 && live == 1) {
        body.template operator()<1>(live);
    } else {
        body.template operator()<ROWS>(live);
    }
}

} // namespace refreshlab::kernels::RL_GPU
