#include "kernels/cuda/decode/elementwise.cuh"
#include "kernels/cuda/decode/mc_attention.h"
#include "kernels/cuda/decode/rotate_head.cuh"
#include "kernels/cuda/decode/steps.cuh"
#include "kernels/cuda/decode/weights.cuh"
#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/rows/rounded.cuh"

#include <cmath>

/// attended[r, h] of the MC rows r = 1, ..., N of a step, as decode_attention.cu defines it: q and k get their norm and RoPE, own key and
/// value are rounded to the cache's type, softmax over the columns (position - window, position) of the cache and the row's own key, the
/// mask of (r, h) on the weights.
///
/// Grid    [splits of 256 columns that `capacity` has, KV heads, tiles], 8 warps. A tile has all query heads of the KV head for as many
///         rows as 16 TILES queries hold: query i is of row 1 + first + i / group. Blocks whose split has no visible column end at once.
/// Memory  keys and values go from memory into registers, 16 bytes at a time, and are asked for before the kernel waits for the one in
///         front. Dynamic: queries [16 TILES][channels] in two parts, scores [16 TILES][256], own keys [rows of the tile][head_dim].
/// Parts   tensor cores multiply 16-bit numbers of the cache's type. Queries and weights have two parts of it, rounded and what rounding
///         took away, which keep 16 bits of bf16 and 22 of f16 (rounded.cuh). A unit of 16 bytes has the first parts of four neighbours,
///         then their second ones.
/// Scores  warp w makes 32 columns. Lane 4 g + t reads vector 4 i + t of keys g, g + 8, ...: channels are permuted alike in queries and keys,
///         so that a lane's 16 bytes are two operands. The row's own key: fp32, a warp a query.
/// Values  a warp has 64 channels and a share of the columns. Lane 4 g + t reads 8 channels of four neighbouring columns and pairs them up;
///         channel 8 g + j stands in column g of tile j. The row's own value is added in fp32 at the end.
/// Order   of a score: channels ascend in steps of 16 that a tensor core adds, first parts before second ones. Of a softmax: as in
///         decode_attention.cu. Of a value: a warp's columns ascend in steps of 16, warps as a tree, own value last. Splits are merged in
///         index order by the block that comes last. Nothing of it hangs on the rows beside it.
/// Bound   by reading keys and values from the second cache, where the token's attention has just brought them.
/// Source  decode_attention.cu; PTX ISA 9.0, section 9.7.14.5; queries that share a prefix: Hydragen, arXiv 2402.05099.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int mc_warps = static_cast<int>(decode::attention_warps), mc_block = 32 * mc_warps;
constexpr int split_columns = static_cast<int>(decode::split_positions);
constexpr int columns_of_warp = split_columns / mc_warps, key_tiles = columns_of_warp / 8;
/// Floats from query to query of the scores: lanes of neighbouring queries meet in no bank.
constexpr int score_stride = static_cast<int>(decode::mc_score_stride);
constexpr int most_queries = static_cast<int>(decode::mc_attention_queries);

struct Parameters {
    McAttentionInputs in;
    Masks masks;
    int group, head_dim, splits, tile_rows;
    int units; ///< of 4 channels of a query, a multiple of 8
    float scale, cap;
    HeadNumbers head;
};

struct Sums {
    float max, sum;
};

/// What a block knows of its place, all threads the same.
struct Place {
    int first_row, rows; ///< MC rows of the tile that are there
    int queries;         ///< of them
    int kv_head, split;
    int first_split, last_split; ///< that have a visible column
    int begin;                   ///< column of the split's number 0
    int low, cached;             ///< of the split's columns [low, cached) are read from the cache
    int own; ///< number of the rows' own keys among the split's columns; -1: in another split
    int position;
    __device__ bool reads(int column) const { return column >= low && column < cached; }
    __device__ bool sees(int column) const { return reads(column) || column == own; }
};

/// \return false: this block has nothing to do
__device__ bool find_place(const Parameters& p, Place& at) {
    at.split = static_cast<int>(blockIdx.x);
    at.kv_head = static_cast<int>(blockIdx.y);
    at.first_row = 1 + static_cast<int>(blockIdx.z) * p.tile_rows;
    at.rows = live_rows(p.in.state, static_cast<int>(p.in.rows), at.first_row, p.tile_rows);
    if (at.rows <= 0) return false;
    at.queries = at.rows * p.group;
    at.position = static_cast<int>(p.in.state->position);
    const int window = static_cast<int>(p.in.window);
    const int first = window > 0 && at.position >= window ? at.position - window + 1 : 0;
    at.first_split = first / split_columns;
    at.last_split = at.position / split_columns;
    if (at.split < at.first_split || at.split > at.last_split) return false;
    at.begin = at.split * split_columns;
    at.low = first > at.begin ? first - at.begin : 0;
    at.cached = at.position - at.begin < split_columns ? at.position - at.begin : split_columns;
    at.own = at.split == at.last_split ? at.cached : -1;
    return true;
}

/// The row's q, k and v.
__device__ const float* row_of_qkv(const Parameters& p, int row) {
    return p.in.qkv + int64_t{row} * (p.in.heads + 2 * p.in.kv_heads) * p.head_dim;
}

/// Bytes from query to query: 16 more than the units have, so that neighbours begin in different banks.
__device__ int query_bytes(const Parameters& p) {
    return p.units * 16 + 16;
}

/// x in two parts, as number i of a row of units.
template <WeightType type>
__device__ void put_parts(unsigned char* row, int i, float x) {
    auto* const unit = reinterpret_cast<uint16_t*>(row + i / 4 * 16) + i % 4;
    const uint16_t first = to_stored<type>(x);
    unit[0] = first;
    unit[4] = to_stored<type>(x - to_float<type>(first));
}

/// Queries in two parts, zeros where there is no query or channel; and, in the split that has them, own keys as stored.
template <WeightType type, int TILES>
__device__ void prepare(const Parameters& p, const Place& at, unsigned char* queries,
                        Stored<type>* own_keys) {
    const int warp = static_cast<int>(threadIdx.x / 32), dim = p.head_dim;
    const Turn turn = turn_of(p.in.cos, p.in.sin, p.head.turned_pairs, at.position);
    for (int q = warp; q < 16 * TILES; q += mc_warps) {
        unsigned char* const to = queries + q * query_bytes(p);
        const bool there = q < at.queries;
        for (int u = (there ? dim / 4 : 0) + static_cast<int>(threadIdx.x % 32); u < p.units; u += 32)
            *reinterpret_cast<uint4*>(to + u * 16) = make_uint4(0, 0, 0, 0);
        if (!there) continue;
        const float* const head =
            row_of_qkv(p, at.first_row + q / p.group) + (at.kv_head * p.group + q % p.group) * dim;
        rotate_head<type>(head, p.head.q_norm, p.head.eps, turn, dim,
                          [&](int channel, float x) { put_parts<type>(to, channel, x); });
    }
    if (at.own < 0) return;
    for (int r = mc_warps - 1 - warp; r < at.rows; r += mc_warps) {
        const float* const head = row_of_qkv(p, at.first_row + r) + (p.in.heads + at.kv_head) * dim;
        rotate_head<type>(head, p.head.k_norm, p.head.eps, turn, dim,
                          [&](int channel, float x) { own_keys[r * dim + channel] = to_stored<type>(x); });
    }
}

/// Units u of rows g and g + 8 as the tensor core's operand of 16 rows: of first parts, and of second ones.
struct RowOperands {
    uint32_t first[4], second[4];
    __device__ RowOperands(const unsigned char* row_g, int bytes_between, int unit) {
        const uint4 a = *reinterpret_cast<const uint4*>(row_g + unit * 16),
                    b = *reinterpret_cast<const uint4*>(row_g + 8 * bytes_between + unit * 16);
        first[0] = a.x;
        first[1] = b.x;
        first[2] = a.y;
        first[3] = b.y;
        second[0] = a.z;
        second[1] = b.z;
        second[2] = a.w;
        second[3] = b.w;
    }
};

/// Scores of the split's columns, but for the rows' own keys; 0 where there is no key.
template <WeightType type, int TILES>
__device__ void make_scores(const Parameters& p, const Place& at, const uint4* keys,
                            const unsigned char* queries, float* scores) {
    constexpr bool bf16 = type == WeightType::bf16;
    const int lane = static_cast<int>(threadIdx.x % 32), g = lane / 4, t = lane % 4;
    const int first = static_cast<int>(threadIdx.x / 32) * columns_of_warp, vectors = p.head_dim / 8;
    float sums[TILES][key_tiles][4] = {};
#pragma unroll 2
    for (int i = 0; i < p.units / 8; ++i) {
        const int v = 4 * i + t;
        uint4 raw[key_tiles];
#pragma unroll
        for (int n = 0; n < key_tiles; ++n) {
            const int column = first + 8 * n + g;
            raw[n] = v < vectors && at.reads(column) ? __ldcg(keys + int64_t{column} * vectors + v)
                                                     : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int m = 0; m < TILES; ++m) {
            const unsigned char* const row = queries + (16 * m + g) * query_bytes(p);
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                const RowOperands a(row, query_bytes(p), 2 * v + part);
#pragma unroll
                for (int n = 0; n < key_tiles; ++n) {
                    const uint32_t b[2] = {part == 0 ? raw[n].x : raw[n].z, part == 0 ? raw[n].y : raw[n].w};
                    mma_m16n8k16<bf16>(sums[m][n], a.first, b);
                    mma_m16n8k16<bf16>(sums[m][n], a.second, b);
                }
            }
        }
    }
#pragma unroll
    for (int m = 0; m < TILES; ++m) {
#pragma unroll
        for (int n = 0; n < key_tiles; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int query = 16 * m + g + i / 2 * 8, column = first + 8 * n + 2 * t + i % 2;
                if (column != at.own)
                    scores[query * score_stride + column] =
                        soft_capped(__fmul_rn(sums[m][n][i], p.scale), p.cap);
            }
        }
    }
}

/// Scores of the rows' own keys.
template <WeightType type>
__device__ void make_own_scores(const Parameters& p, const Place& at, const unsigned char* queries,
                                const Stored<type>* own_keys, float* scores) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    for (int q = static_cast<int>(threadIdx.x / 32); q < at.queries; q += mc_warps) {
        const Stored<type>* const key = own_keys + q / p.group * p.head_dim;
        float sum = 0;
        for (int channel = lane; channel < p.head_dim; channel += 32) {
            const auto* const parts =
                reinterpret_cast<const uint16_t*>(queries + q * query_bytes(p) + channel / 4 * 16) +
                channel % 4;
            const float query = __fadd_rn(to_float<type>(parts[0]), to_float<type>(parts[4]));
            sum = fmaf(query, to_float<type>(key[channel]), sum);
        }
        sum = warp_sum(sum);
        if (lane == 0) scores[q * score_stride + at.own] = soft_capped(__fmul_rn(sum, p.scale), p.cap);
    }
}

/// Maximum of a split's scores and sum of e^(score - maximum), of each query; in place of the scores e^(score - maximum) under the mask of
/// the row, in two parts, 0 where the row sees nothing; the own key's in own_weight. A lane has eight columns that one call of Philox serves.
template <WeightType type>
__device__ void make_weights(const Parameters& p, const Place& at, const StepState& state, int queries,
                             float* scores, float* own_weight, Sums* of_query) {
    constexpr int of_lane = split_columns / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int block = lane / 16 * static_cast<int>(shared::mask_block), within = lane % 16;
    for (int q = static_cast<int>(threadIdx.x / 32); q < queries; q += mc_warps) {
        float* const score = scores + q * score_stride;
        const bool there = q < at.queries;
        float x[of_lane], max = -INFINITY, sum = 0;
#pragma unroll
        for (int i = 0; i < of_lane; ++i) {
            const int column = block + i * 16 + within;
            x[i] = there && at.sees(column) ? score[column] : -INFINITY;
            max = fmaxf(max, x[i]);
        }
        max = warp_max(max);
#pragma unroll
        for (int i = 0; i < of_lane; ++i) {
            x[i] = there && at.sees(block + i * 16 + within) ? expf(__fadd_rn(x[i], -max)) : 0.0F;
            sum = __fadd_rn(sum, x[i]);
        }
        sum = warp_sum(sum);
        if (there && lane == 0) of_query[q] = {max, sum};
        if (there && p.masks.threshold > 0) {
            const int head = at.kv_head * p.group + q % p.group;
            const shared::MaskStream stream =
                masks_of(state, p.masks.site, p.masks.layer, at.first_row + q / p.group,
                         static_cast<uint32_t>(head), p.masks.threshold);
            const shared::Philox4 draws =
                shared::mask_draws(stream, static_cast<uint32_t>(at.begin + block) / shared::mask_block,
                                   static_cast<uint32_t>(within));
#pragma unroll
            for (int i = 0; i < of_lane; ++i) {
                const bool kept = shared::mask_draw_keeps(stream, draws, static_cast<uint32_t>(i));
                x[i] = kept ? __fmul_rn(x[i], p.masks.scale) : 0.0F;
            }
        }
        __syncwarp(); // all lanes have read the scores
#pragma unroll
        for (int i = 0; i < of_lane; ++i) {
            const int column = block + i * 16 + within;
            put_parts<type>(reinterpret_cast<unsigned char*>(score), column, x[i]);
            if (there && column == at.own) own_weight[q] = x[i];
        }
    }
}

/// What the warps have between them: 64 channels each, and shares of the columns.
struct ValueShare {
    int sets, shares; ///< shares: of the columns, a power of two
    int set, share;
    __device__ explicit ValueShare(int head_dim) {
        sets = head_dim <= 64 ? 1 : head_dim <= 128 ? 2 : 4;
        shares = mc_warps / sets;
        set = static_cast<int>(threadIdx.x / 32) % sets;
        share = static_cast<int>(threadIdx.x / 32) / sets;
    }
};

template <int TILES>
using Values = float[TILES][8][4];

template <WeightType type, int TILES>
__device__ void add_values(const Parameters& p, const Place& at, const ValueShare& mine, const uint4* values,
                           const float* weights, Values<TILES>& sums) {
    constexpr bool bf16 = type == WeightType::bf16;
    constexpr int weight_bytes = score_stride * 4;
    const int lane = static_cast<int>(threadIdx.x % 32), g = lane / 4, t = lane % 4;
    const int vectors = p.head_dim / 8, v = mine.set * 8 + g, of_share = split_columns / mine.shares;
    const int first = mine.share * of_share;
#pragma unroll 1 // two steps of two tiles would not fit into the registers
    for (int c = first; c < first + of_share; c += 16) {
        if (c >= at.cached || c + 16 <= at.low) continue;
        uint4 raw[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int column = c + 4 * t + i;
            raw[i] = v < vectors && at.reads(column) ? __ldcg(values + int64_t{column} * vectors + v)
                                                     : make_uint4(0, 0, 0, 0);
        }
        uint32_t b[8][2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const uint4 x = raw[2 * i], y = raw[2 * i + 1];
            const auto pair = [&](int word, uint32_t of_x, uint32_t of_y) {
                b[2 * word][i] = (of_x & 0xFFFFU) | of_y << 16;
                b[2 * word + 1][i] = of_x >> 16 | (of_y & 0xFFFF0000U);
            };
            pair(0, x.x, y.x);
            pair(1, x.y, y.y);
            pair(2, x.z, y.z);
            pair(3, x.w, y.w);
        }
#pragma unroll
        for (int m = 0; m < TILES; ++m) {
            const RowOperands a(reinterpret_cast<const unsigned char*>(weights) + (16 * m + g) * weight_bytes,
                                weight_bytes, c / 4 + t);
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                mma_m16n8k16<bf16>(sums[m][j], a.first, b[j]);
                mma_m16n8k16<bf16>(sums[m][j], a.second, b[j]);
            }
        }
    }
}

/// The first share's warps get what the others have added up, as a tree. All threads of the block come here.
template <int TILES>
__device__ void merge_shares(const ValueShare& mine, float* memory, Values<TILES>& sums) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    for (int half = mine.shares / 2; half > 0; half /= 2) {
        float* const of_warp = memory + (mine.share % half * mine.sets + mine.set) * TILES * 32 * 32 + lane;
        __syncthreads(); // nobody reads any more what stood there
        if (mine.share >= half && mine.share < 2 * half) {
#pragma unroll
            for (int i = 0; i < TILES * 32; ++i)
                of_warp[i * 32] = sums[i / 32][i / 4 % 8][i % 4];
        }
        __syncthreads();
        if (mine.share < half) {
#pragma unroll
            for (int i = 0; i < TILES * 32; ++i)
                sums[i / 32][i / 4 % 8][i % 4] = __fadd_rn(sums[i / 32][i / 4 % 8][i % 4], of_warp[i * 32]);
        }
    }
}

/// Splits of an MC row's query heads in global memory: their sums of values [rows, heads, splits, head_dim], and behind those of all rows
/// (maximum, sum of e^(score - maximum)) [rows, heads, splits].
struct Parts {
    float* values;
    float2* sums;
    /// \param query  of the tile
    __device__ Parts(const Parameters& p, const Place& at, int query) {
        const int64_t all = (p.in.rows - 1) * p.in.heads * p.splits;
        const int64_t row = at.first_row - 1 + query / p.group;
        const int64_t first = (row * p.in.heads + at.kv_head * p.group + query % p.group) * p.splits;
        values = p.in.parts + first * p.head_dim;
        sums = reinterpret_cast<float2*>(p.in.parts + all * p.head_dim) + first;
    }
};
__device__ float* attended_of(const Parameters& p, const Place& at, int query) {
    const int64_t row = at.first_row + query / p.group;
    return p.in.attended + (row * p.in.heads + at.kv_head * p.group + query % p.group) * p.head_dim;
}

/// The split's values, of the warps that have them all: the own one is added; then they are its part, or all there is.
template <WeightType type, int TILES>
__device__ void put_values(const Parameters& p, const Place& at, int set, const float* own_weight,
                           const Sums* of_query, const Values<TILES>& sums) {
    const int lane = static_cast<int>(threadIdx.x % 32), g = lane / 4, t = lane % 4;
    const bool whole = at.first_split == at.last_split;
#pragma unroll
    for (int m = 0; m < TILES; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int query = 16 * m + g + i / 2 * 8, channel = set * 64 + 8 * (2 * t + i % 2);
            if (query >= at.queries || channel >= p.head_dim) continue;
            float x[8];
#pragma unroll
            for (int j = 0; j < 8; ++j)
                x[j] = sums[m][j][i];
            if (at.own >= 0) {
                const float* const own = row_of_qkv(p, at.first_row + query / p.group) +
                                         (p.in.heads + p.in.kv_heads + at.kv_head) * p.head_dim + channel;
#pragma unroll
                for (int j = 0; j < 8; ++j)
                    x[j] = fmaf(own_weight[query], to_float<type>(to_stored<type>(__ldcg(own + j))), x[j]);
            }
            float* to = attended_of(p, at, query) + channel;
            if (!whole) to = Parts(p, at, query).values + int64_t{at.split} * p.head_dim + channel;
            const float all = whole ? of_query[query].sum : 1.0F;
#pragma unroll
            for (int j = 0; j < 8; j += 4)
                *reinterpret_cast<float4*>(to + j) =
                    make_float4(x[j] / all, x[j + 1] / all, x[j + 2] / all, x[j + 3] / all);
        }
    }
}

/// The last block's work: the splits of its queries in index order, a warp a query.
__device__ void merge_splits(const Parameters& p, const Place& at) {
    const int lane = static_cast<int>(threadIdx.x % 32), quads = p.head_dim / 4;
    for (int q = static_cast<int>(threadIdx.x / 32); q < at.queries; q += mc_warps) {
        const Parts parts(p, at, q);
        float max = -INFINITY, sum = 0;
        for (int s = at.first_split + lane; s <= at.last_split; s += 32)
            max = fmaxf(max, __ldcg(parts.sums + s).x);
        max = warp_max(max);
        for (int s = at.first_split + lane; s <= at.last_split; s += 32) {
            const float2 of_split = __ldcg(parts.sums + s);
            sum = fmaf(of_split.y, expf(__fadd_rn(of_split.x, -max)), sum);
        }
        sum = warp_sum(sum);
        for (int quad = lane; quad < quads; quad += 32) {
            float4 all = make_float4(0, 0, 0, 0);
#pragma unroll 4
            for (int s = at.first_split; s <= at.last_split; ++s) {
                const float4 value =
                    __ldcg(reinterpret_cast<const float4*>(parts.values + int64_t{s} * p.head_dim) + quad);
                const float weight = expf(__fadd_rn(__ldcg(parts.sums + s).x, -max));
                all = make_float4(fmaf(weight, value.x, all.x), fmaf(weight, value.y, all.y),
                                  fmaf(weight, value.z, all.z), fmaf(weight, value.w, all.w));
            }
            reinterpret_cast<float4*>(attended_of(p, at, q))[quad] =
                make_float4(all.x / sum, all.y / sum, all.z / sum, all.w / sum);
        }
    }
}

/// Two tiles take a few registers more than two blocks a multiprocessor would leave.
template <WeightType type, int TILES>
__global__ void __launch_bounds__(mc_block, TILES == 1 ? 2 : 1) mc_attention_kernel(const Parameters p) {
    __shared__ Sums of_query[most_queries];
    __shared__ float own_weight[most_queries];
    __shared__ bool last;
    grid_allow_dependents();
    // The state stands there since before the step, and the columns that are read since earlier steps.
    Place at;
    if (!find_place(p, at)) {
        if (at.rows <= 0)
            grid_dependency_wait(); // or nobody would, and the launch behind could overtake the one in front
        return;
    }
    const StepState state = *p.in.state;
    const int dim = p.head_dim, thread = static_cast<int>(threadIdx.x);
    auto* const queries = dynamic_shared<unsigned char>();
    auto* const scores = reinterpret_cast<float*>(queries + 16 * TILES * query_bytes(p));
    auto* const own_keys = reinterpret_cast<Stored<type>*>(scores + 16 * TILES * score_stride);

    const int64_t first = (int64_t{at.kv_head} * p.in.capacity + at.begin) * dim;
    const auto* const keys = static_cast<const Stored<type>*>(p.in.k_cache) + first;
    const auto* const values = static_cast<const Stored<type>*>(p.in.v_cache) + first;
    constexpr int line = 64; // 128 bytes
    for (int i = at.low * dim + thread * line; i < at.cached * dim; i += mc_block * line) {
        prefetch_l2(keys + i);
        prefetch_l2(values + i);
    }

    grid_dependency_wait();
    prepare<type, TILES>(p, at, queries, own_keys);
    __syncthreads();
    make_scores<type, TILES>(p, at, reinterpret_cast<const uint4*>(keys), queries, scores);
    if (at.own >= 0) make_own_scores<type>(p, at, queries, own_keys, scores);
    __syncthreads();
    make_weights<type>(p, at, state, 16 * TILES, scores, own_weight, of_query);
    __syncthreads();
    const ValueShare mine(dim);
    Values<TILES> sums = {};
    add_values<type, TILES>(p, at, mine, reinterpret_cast<const uint4*>(values), scores, sums);
    merge_shares<TILES>(mine, scores, sums);
    if (mine.share == 0) put_values<type, TILES>(p, at, mine.set, own_weight, of_query, sums);
    const int in_use = at.last_split - at.first_split + 1;
    if (in_use == 1) return;

    if (thread < at.queries)
        Parts(p, at, thread).sums[at.split] = make_float2(of_query[thread].max, of_query[thread].sum);
    __syncthreads();
    if (thread == 0) {
        // The block's numbers, which the barrier orders before this thread, are seen by whoever comes later.
        __threadfence();
        uint32_t* const arrived =
            p.in.arrived + static_cast<int64_t>(blockIdx.z) * p.in.kv_heads + at.kv_head;
        last = atomicAdd(arrived, 1U) == static_cast<unsigned>(in_use - 1);
        if (last) atomicExch(arrived, 0U); // for the next launch
        __threadfence();
    }
    __syncthreads();
    if (last) merge_splits(p, at);
}

} // namespace

void launch_mc_attention(const McAttentionInputs& in, void* stream) {
    RL_ASSERT(in.rows > 1 && in.kv_heads > 0 && in.heads % in.kv_heads == 0);
    const int64_t group = in.heads / in.kv_heads;
    RL_ASSERT(group >= 1 && group <= decode::most_group);
    RL_ASSERT(in.head_dim > 0 && in.head_dim <= decode::most_head_dim && in.head_dim % 8 == 0);
    const Parameters p{in,
                       masks(in.dropout),
                       static_cast<int>(group),
                       static_cast<int>(in.head_dim),
                       static_cast<int>(decode::splits(in.capacity)),
                       static_cast<int>(decode::mc_attention_rows(group, in.rows)),
                       static_cast<int>(decode::mc_query_units(in.head_dim)),
                       static_cast<float>(in.query_scale / std::sqrt(static_cast<double>(in.head_dim))),
                       static_cast<float>(in.cap),
                       head_numbers(in)};
    const LaunchShape shape = decode::mc_attention(in.kv_heads, group, in.head_dim, in.rows, in.capacity);
    with_type(in.type, [&]<WeightType type>() {
        if constexpr (type == WeightType::f32) {
            RL_ASSERT(false); // fp32 units make such rows one by one (decode_attention.cu)
        } else if (decode::mc_attention_tiles(group, in.rows) == 1) {
            launch_step(in.dependent, mc_attention_kernel<type, 1>, shape, stream, p);
        } else {
            launch_step(in.dependent, mc_attention_kernel<type, 2>, shape, stream, p);
        }
    });
}

} // namespace refreshlab::kernels::RL_GPU
