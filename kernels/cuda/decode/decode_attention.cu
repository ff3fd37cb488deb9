#include "kernels/cuda/decode/steps.cuh"
#include "kernels/cuda/decode/weights.cuh"

#include <cmath>

/// attended[r, h] = sum_j m_j p_j v_j, p = softmax_j(q k_j / sqrt(head_dim)), over the columns (position - window, position) of the cache
/// and, as the last key, row r's own at `position`; m is the dropout mask of row r > 0, scaled, else 1. Before it q and k get their norm
/// over the head and RoPE, k and v are rounded to the cache's type, and row 0 writes them at column `position`.
///
/// Grid    [splits of 256 columns that `capacity` has, KV heads, rows], 8 warps. Blocks whose split has no visible column end at once.
/// Memory  keys and values of a split are read once for all query heads of the KV head, 16 bytes at a time, and asked for before the
///         kernel waits for the one in front. Dynamic: queries [group, head_dim], own key and value as stored, scores [group, 256], sums of
///         values [attention_sums, group, head_dim]. Everything below 67,584 bytes.
/// Scores  four lanes a key, lane l vectors l, l + 4, ...; eight times four keys a warp, so that the block has all 256 at once. A
///         vector of the queries is read from shared memory once for four keys.
/// Values  a lane holds one vector of the head's channels for (up to eight) query heads and goes over columns, four at a time; lanes that
///         are left over go over other columns. Sixteen query heads are two sets of four warps.
/// Order   of a score: lane by lane over its vectors, then the four lanes as a tree. Of a softmax: eight columns of a lane ascending, then
///         warp_sum. Of a value: a lane's columns ascending, lanes ascending, warps as (w, w + half), then ascending. Columns are those
///         of the split, so nothing hangs on the length, the row, or what is beside it. Splits are merged in index order by the
///         block that comes last; a split's bits and that order are all that the result is made of.
/// Bound   by reading the cache; below 2,000 positions by the latency of its chain of steps.
/// Source  Vaswani et al. 2017; GQA: Ainslie et al. 2023; RoPE: Su et al. 2021; splits: flash-decoding, Dao et al. 2023; merging by
///         rescaling: Milakov and Gimelshein 2018.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int warps = static_cast<int>(decode::attention_warps);
constexpr int attention_threads = 32 * warps;
constexpr int columns = static_cast<int>(decode::split_positions);
constexpr int keys_of_lane = columns / (attention_threads / 4);
static_assert(keys_of_lane == 4 && columns == attention_threads, "a thread writes one score of each head");
constexpr int most_group = static_cast<int>(decode::most_group);
constexpr int most_head_dim = static_cast<int>(decode::most_head_dim);
constexpr int pairs_of_lane = most_head_dim / 2 / 32;

struct Parameters {
    DecodeAttentionInputs in;
    Masks masks;
    int group, head_dim, splits;
    float scale, eps;
};

/// Of a head's scores: their maximum, and the sum of e^(score - maximum). In global memory as a float2.
struct Sums {
    float max, sum;
};

/// What a block knows of its place, all threads the same.
struct Place {
    int row, kv_head, split;
    int first_split, last_split; ///< that have a visible column
    int begin;                   ///< column of the split's number 0
    int low, cached;             ///< of the split's columns [low, cached) are read from the cache
    int own; ///< number of the row's own key among the split's columns; -1: in another split
    int position;
    __device__ bool reads(int column) const { return column >= low && column < cached; }
    __device__ bool sees(int column) const { return reads(column) || column == own; }
};

/// \return false: this block has nothing to do
__device__ bool find_place(const Parameters& p, Place& at) {
    at.split = static_cast<int>(blockIdx.x);
    at.kv_head = static_cast<int>(blockIdx.y);
    at.row = static_cast<int>(blockIdx.z);
    if (at.row > p.in.state->passes) return false;
    at.position = static_cast<int>(p.in.state->position);
    const int window = static_cast<int>(p.in.window);
    const int first = window > 0 && at.position >= window ? at.position - window + 1 : 0;
    at.first_split = first / columns;
    at.last_split = at.position / columns;
    if (at.split < at.first_split || at.split > at.last_split) return false;
    at.begin = at.split * columns;
    at.low = first > at.begin ? first - at.begin : 0;
    at.cached = at.position - at.begin < columns ? at.position - at.begin : columns;
    at.own = at.split == at.last_split ? at.cached : -1;
    return true;
}

/// One head of q or k by a warp: norm, then RoPE at `position`. put(channel, value) takes the results.
template <WeightType type, typename Put>
__device__ void rotate_head(const float* head, const void* norm, const Parameters& p, int position,
                            const Put& put) {
    const int lane = static_cast<int>(threadIdx.x % 32), half = p.head_dim / 2;
    float a[pairs_of_lane], b[pairs_of_lane], cosine[pairs_of_lane], sine[pairs_of_lane];
    float square = 0;
#pragma unroll
    for (int i = 0; i < pairs_of_lane; ++i) {
        const int pair = lane + 32 * i;
        a[i] = b[i] = cosine[i] = sine[i] = 0;
        if (pair >= half) continue;
        a[i] = __ldcg(head + pair);
        b[i] = __ldcg(head + half + pair);
        cosine[i] = __ldg(p.in.cos + int64_t{position} * half + pair);
        sine[i] = __ldg(p.in.sin + int64_t{position} * half + pair);
        square = fmaf(a[i], a[i], square);
        square = fmaf(b[i], b[i], square);
    }
    float inverse = 1;
    if (norm != nullptr) {
        square = warp_sum(square);
        inverse = 1.0F / sqrtf(__fadd_rn(square / static_cast<float>(p.head_dim), p.eps));
    }
#pragma unroll
    for (int i = 0; i < pairs_of_lane; ++i) {
        const int pair = lane + 32 * i;
        if (pair >= half) continue;
        if (norm != nullptr) {
            a[i] = __fmul_rn(__fmul_rn(a[i], inverse), weight_at<type>(norm, pair));
            b[i] = __fmul_rn(__fmul_rn(b[i], inverse), weight_at<type>(norm, half + pair));
        }
        // Each product is rounded, as in the references: what is cached then differs from theirs by no more than the norm does.
        put(pair, __fadd_rn(__fmul_rn(a[i], cosine[i]), -__fmul_rn(b[i], sine[i])));
        put(half + pair, __fadd_rn(__fmul_rn(b[i], cosine[i]), __fmul_rn(a[i], sine[i])));
    }
}

/// Queries into shared memory; own key and value, as stored, into shared memory and by row 0 into the cache.
template <WeightType type>
__device__ void prepare(const Parameters& p, const Place& at, float* queries, Stored<type>* own_key,
                        Stored<type>* own_value) {
    const int warp = static_cast<int>(threadIdx.x / 32), heads = static_cast<int>(p.in.heads),
              kv_heads = static_cast<int>(p.in.kv_heads), dim = p.head_dim;
    const float* const row = p.in.qkv + int64_t{at.row} * (heads + 2 * kv_heads) * dim;
    const int64_t column = (int64_t{at.kv_head} * p.in.capacity + at.position) * dim;
    for (int h = warp; h < p.group; h += warps) {
        float* const query = queries + h * dim;
        rotate_head<type>(row + (at.kv_head * p.group + h) * dim, p.in.q_norm, p, at.position,
                          [query](int channel, float x) { query[channel] = x; });
    }
    if (at.own < 0) return;
    // By the last warp, which has no query where there are fewer than eight.
    if (warp == warps - 1) {
        auto* const cache = static_cast<Stored<type>*>(p.in.k_cache) + column;
        rotate_head<type>(row + (heads + at.kv_head) * dim, p.in.k_norm, p, at.position,
                          [&](int channel, float x) {
                              const Stored<type> stored = to_stored<type>(x);
                              own_key[channel] = stored;
                              if (at.row == 0) cache[channel] = stored;
                          });
    }
    for (int channel = static_cast<int>(threadIdx.x); channel < dim; channel += attention_threads) {
        const Stored<type> stored =
            to_stored<type>(__ldcg(row + (heads + kv_heads + at.kv_head) * dim + channel));
        own_value[channel] = stored;
        if (at.row == 0) static_cast<Stored<type>*>(p.in.v_cache)[column + channel] = stored;
    }
}

/// Scores of all keys of the split, for all heads; 0 where there is no key.
template <WeightType type, int HEADS>
__device__ void make_scores(const Parameters& p, const Place& at, const uint4* keys, const uint4* own_key,
                            const float* queries, float* scores) {
    constexpr int parts = per_vector<type> / 4;
    const int lane_of_key = static_cast<int>(threadIdx.x % 4), vectors = p.head_dim / per_vector<type>;
    const int first = static_cast<int>(threadIdx.x / 4) * keys_of_lane; // number of the four lanes' first key
    float sums[keys_of_lane][HEADS] = {};
#pragma unroll 2
    for (int v = lane_of_key; v < vectors; v += 4) {
        uint4 raw[keys_of_lane];
#pragma unroll
        for (int k = 0; k < keys_of_lane; ++k) {
            raw[k] = make_uint4(0, 0, 0, 0);
            if (at.reads(first + k)) {
                raw[k] = __ldcg(keys + int64_t{first + k} * vectors + v);
            } else if (first + k == at.own) {
                raw[k] = own_key[v];
            }
        }
#pragma unroll
        for (int part = 0; part < parts; ++part) {
            float key[keys_of_lane][4];
#pragma unroll
            for (int k = 0; k < keys_of_lane; ++k)
                unpack<type>(raw[k], part, key[k]);
#pragma unroll
            for (int h = 0; h < HEADS; ++h) {
                if (h >= p.group) break;
                const float4 q = *reinterpret_cast<const float4*>(queries + h * p.head_dim +
                                                                  v * per_vector<type> + part * 4);
#pragma unroll
                for (int k = 0; k < keys_of_lane; ++k) {
                    sums[k][h] = fmaf(key[k][0], q.x, sums[k][h]);
                    sums[k][h] = fmaf(key[k][1], q.y, sums[k][h]);
                    sums[k][h] = fmaf(key[k][2], q.z, sums[k][h]);
                    sums[k][h] = fmaf(key[k][3], q.w, sums[k][h]);
                }
            }
        }
    }
    __syncwarp();
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
        if (h >= p.group) break;
        float mine = 0;
#pragma unroll
        for (int k = 0; k < keys_of_lane; ++k) {
            float sum = sums[k][h];
            sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFU, sum, 1));
            sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFU, sum, 2));
            if (k == lane_of_key) mine = sum;
        }
        // Lane l of the four has key l, which is number threadIdx.x of the split.
        scores[h * columns + static_cast<int>(threadIdx.x)] = __fmul_rn(mine, p.scale);
    }
}

/// Maximum of a split's scores and sum of e^(score - maximum), of each head; in `scores` e^(score - maximum) under the mask of the row, 0
/// where the row sees nothing. A lane has eight columns that one call of Philox serves (shared/philox.h).
__device__ void make_weights(const Parameters& p, const Place& at, const StepState& state, float* scores,
                             Sums* of_head) {
    constexpr int of_lane = columns / 32;
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int block = lane / 16 * static_cast<int>(shared::mask_block), within = lane % 16;
    for (int h = static_cast<int>(threadIdx.x / 32); h < p.group; h += warps) {
        float* const score = scores + h * columns + block + within;
        const int head = at.kv_head * p.group + h;
        float x[of_lane], max = -INFINITY, sum = 0;
#pragma unroll
        for (int i = 0; i < of_lane; ++i) {
            x[i] = score[i * 16];
            if (at.sees(block + i * 16 + within)) {
                max = fmaxf(max, x[i]);
                if (at.row == 0 && p.in.scores != nullptr)
                    p.in.scores[int64_t{head} * p.in.capacity + at.begin + block + i * 16 + within] = x[i];
            }
        }
        max = warp_max(max);
#pragma unroll
        for (int i = 0; i < of_lane; ++i) {
            x[i] = at.sees(block + i * 16 + within) ? expf(__fadd_rn(x[i], -max)) : 0.0F;
            sum = __fadd_rn(sum, x[i]);
        }
        sum = warp_sum(sum);
        if (lane == 0) of_head[h] = {max, sum};
        if (at.row > 0 && p.masks.threshold > 0) {
            const shared::MaskStream stream = masks_of(state, p.masks.site, p.masks.layer, at.row,
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
#pragma unroll
        for (int i = 0; i < of_lane; ++i)
            score[i * 16] = x[i];
    }
}

/// sums [half the warps of a set, group, head_dim]: what the warps of a set have added up of weight times value.
template <WeightType type, int HEADS>
__device__ void add_values(const Parameters& p, const Place& at, const uint4* values, const uint4* own_value,
                           const float* weights, float* sums_of_warps) {
    constexpr int sets = HEADS > 8 ? 2 : 1, heads = HEADS / sets, warps_of_set = warps / sets;
    constexpr int parts = per_vector<type> / 4;
    const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
    const int first_head = warp / warps_of_set * heads, w = warp % warps_of_set;
    const int here = p.group - first_head < heads ? p.group - first_head : heads;
    const int vectors = p.head_dim / per_vector<type>;
    const int end = at.own >= 0 ? at.own + 1 : at.cached;
    for (int first = 0; first < vectors; first += 32) {
        const int width = vectors - first < 32 ? vectors - first : 32; // lanes that have the head's channels
        const int slots = 32 / width, slot = lane / width, v = first + lane % width;
        float sums[heads][per_vector<type>] = {};
        for (int column = (w * slots + slot) * 4; slot < slots && column < end;
             column += warps_of_set * slots * 4) {
            uint4 raw[4];
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                raw[c] = make_uint4(0, 0, 0, 0);
                if (at.reads(column + c)) {
                    raw[c] = __ldcg(values + int64_t{column + c} * vectors + v);
                } else if (column + c == at.own) {
                    raw[c] = own_value[v];
                }
            }
#pragma unroll
            for (int part = 0; part < parts; ++part) {
                float value[4][4];
#pragma unroll
                for (int c = 0; c < 4; ++c)
                    unpack<type>(raw[c], part, value[c]);
#pragma unroll
                for (int h = 0; h < heads; ++h) {
                    if (h >= here) break;
                    const float4 weight =
                        *reinterpret_cast<const float4*>(weights + (first_head + h) * columns + column);
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        float& sum = sums[h][part * 4 + i];
                        sum = fmaf(weight.x, value[0][i], sum);
                        sum = fmaf(weight.y, value[1][i], sum);
                        sum = fmaf(weight.z, value[2][i], sum);
                        sum = fmaf(weight.w, value[3][i], sum);
                    }
                }
            }
        }
        __syncwarp();
        // Lanes of the other slots onto those of the first.
        for (int s = 1; s < slots; ++s) {
#pragma unroll
            for (int h = 0; h < heads; ++h) {
                if (h >= here) break;
#pragma unroll
                for (int i = 0; i < per_vector<type>; ++i) {
                    const float other = __shfl_sync(0xFFFFFFFFU, sums[h][i], (lane + s * width) % 32);
                    if (slot == 0) sums[h][i] = __fadd_rn(sums[h][i], other);
                }
            }
        }
        // Half of the warps lay theirs down, the other half add them to theirs.
        constexpr int half = warps_of_set / 2;
        float* const mine =
            sums_of_warps + (w % half * p.group + first_head) * p.head_dim + v * per_vector<type>;
        for (int turn = 1; turn >= 0; --turn) {
            if (w / half == turn && slot == 0) {
#pragma unroll
                for (int h = 0; h < heads; ++h) {
                    if (h >= here) break;
#pragma unroll
                    for (int part = 0; part < parts; ++part) {
                        auto* const to = reinterpret_cast<float4*>(mine + h * p.head_dim + part * 4);
                        float4 sum = make_float4(sums[h][part * 4], sums[h][part * 4 + 1],
                                                 sums[h][part * 4 + 2], sums[h][part * 4 + 3]);
                        if (turn == 0) {
                            const float4 other = *to;
                            sum = make_float4(__fadd_rn(sum.x, other.x), __fadd_rn(sum.y, other.y),
                                              __fadd_rn(sum.z, other.z), __fadd_rn(sum.w, other.w));
                        }
                        *to = sum;
                    }
                }
            }
            __syncthreads();
        }
    }
}

/// Splits of a row's query heads in global memory: their sums of values [rows, heads, splits, head_dim], and behind those of all rows
/// (maximum, sum of e^(score - maximum)) [rows, heads, splits].
struct Parts {
    float* values;
    float2* sums;
    __device__ Parts(const Parameters& p, const Place& at) {
        const int64_t all = p.in.rows * p.in.heads * p.splits;
        const int64_t first = (at.row * p.in.heads + int64_t{at.kv_head} * p.group) * p.splits;
        values = p.in.parts + first * p.head_dim;
        sums = reinterpret_cast<float2*>(p.in.parts + all * p.head_dim) + first;
    }
};

/// The last block's work: heads' splits, in index order.
template <int HEADS>
__device__ void merge(const Parameters& p, const Place& at, const Parts& parts, float* weights, Sums* of_head,
                      float* attended) {
    constexpr int of_thread = (HEADS * most_head_dim / 4 + attention_threads - 1) / attention_threads;
    const int lane = static_cast<int>(threadIdx.x % 32);
    for (int h = static_cast<int>(threadIdx.x / 32); h < p.group; h += warps) {
        const float2* const sums = parts.sums + h * p.splits;
        float max = -INFINITY, sum = 0;
        for (int s = at.first_split + lane; s <= at.last_split; s += 32)
            max = fmaxf(max, __ldcg(sums + s).x);
        max = warp_max(max);
        for (int s = at.first_split + lane; s <= at.last_split; s += 32) {
            const float2 of_split = __ldcg(sums + s);
            sum = fmaf(of_split.y, expf(__fadd_rn(of_split.x, -max)), sum);
        }
        sum = warp_sum(sum);
        if (lane == 0) of_head[h] = {max, sum};
    }
    __syncthreads();
    float4 merged[of_thread];
#pragma unroll
    for (int i = 0; i < of_thread; ++i)
        merged[i] = make_float4(0, 0, 0, 0);
    const int of_row = p.head_dim / 4;
    for (int first = at.first_split; first <= at.last_split; first += columns) {
        const int count = at.last_split + 1 - first < columns ? at.last_split + 1 - first : columns;
        for (int i = static_cast<int>(threadIdx.x); i < p.group * count; i += attention_threads) {
            const int h = i / count, s = i % count;
            weights[h * columns + s] =
                expf(__fadd_rn(__ldcg(parts.sums + h * p.splits + first + s).x, -of_head[h].max));
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < of_thread; ++i) {
            const int place = static_cast<int>(threadIdx.x) + i * attention_threads, h = place / of_row;
            if (h >= p.group) break;
            const auto* const values =
                reinterpret_cast<const float4*>(parts.values + (int64_t{h} * p.splits + first) * p.head_dim) +
                place % of_row;
            float4 sum = merged[i];
#pragma unroll 4
            for (int s = 0; s < count; ++s) {
                const float4 value = __ldcg(values + int64_t{s} * of_row);
                const float weight = weights[h * columns + s];
                sum = make_float4(fmaf(weight, value.x, sum.x), fmaf(weight, value.y, sum.y),
                                  fmaf(weight, value.z, sum.z), fmaf(weight, value.w, sum.w));
            }
            merged[i] = sum;
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < of_thread; ++i) {
        const int place = static_cast<int>(threadIdx.x) + i * attention_threads, h = place / of_row;
        if (h >= p.group) break;
        const float all = of_head[h].sum;
        reinterpret_cast<float4*>(attended)[place] =
            make_float4(merged[i].x / all, merged[i].y / all, merged[i].z / all, merged[i].w / all);
    }
}

template <WeightType type, int HEADS>
__global__ void __launch_bounds__(attention_threads, 2) decode_attention_kernel(const Parameters p) {
    __shared__ Sums of_head[most_group];
    __shared__ bool last;
    grid_allow_dependents();
    // The state stands there since before the step, and the columns that are read since earlier steps.
    Place at;
    if (!find_place(p, at)) return;
    const StepState state = *p.in.state;
    const int dim = p.head_dim, thread = static_cast<int>(threadIdx.x);
    float* const queries = dynamic_shared<float>();
    auto* const own_key = reinterpret_cast<Stored<type>*>(queries + p.group * dim);
    auto* const own_value = reinterpret_cast<Stored<type>*>(queries + (p.group + 1) * dim);
    float* const scores = queries + (p.group + 2) * dim;
    float* const sums = scores + p.group * columns;

    const int64_t first = (int64_t{at.kv_head} * p.in.capacity + at.begin) * dim;
    const Stored<type>* const keys = static_cast<const Stored<type>*>(p.in.k_cache) + first;
    const Stored<type>* const values = static_cast<const Stored<type>*>(p.in.v_cache) + first;
    // 128 bytes at a time, from the first visible column on.
    constexpr int line = 128 / static_cast<int>(sizeof(Stored<type>));
    for (int i = at.low * dim + thread * line; i < at.cached * dim; i += attention_threads * line) {
        prefetch_l2(keys + i);
        prefetch_l2(values + i);
    }

    grid_dependency_wait();
    prepare<type>(p, at, queries, own_key, own_value);
    __syncthreads();
    make_scores<type, HEADS>(p, at, reinterpret_cast<const uint4*>(keys),
                             reinterpret_cast<const uint4*>(own_key), queries, scores);
    __syncthreads();
    make_weights(p, at, state, scores, of_head);
    __syncthreads();
    add_values<type, HEADS>(p, at, reinterpret_cast<const uint4*>(values),
                            reinterpret_cast<const uint4*>(own_value), scores, sums);

    // What the warps have added up becomes the split's, or all there is.
    const int in_use = at.last_split - at.first_split + 1;
    const Parts parts(p, at);
    float* const attended = p.in.attended + (at.row * p.in.heads + int64_t{at.kv_head} * p.group) * dim;
    constexpr int of_warps = warps / (HEADS > 8 ? 4 : 2);
    for (int i = thread; i < p.group * dim / 4; i += attention_threads) {
        const int h = i / (dim / 4);
        float4 sum = reinterpret_cast<const float4*>(sums)[i];
#pragma unroll
        for (int w = 1; w < of_warps; ++w) {
            const float4 other = reinterpret_cast<const float4*>(sums)[w * p.group * dim / 4 + i];
            sum = make_float4(__fadd_rn(sum.x, other.x), __fadd_rn(sum.y, other.y), __fadd_rn(sum.z, other.z),
                              __fadd_rn(sum.w, other.w));
        }
        if (in_use == 1) {
            const float all = of_head[h].sum;
            reinterpret_cast<float4*>(attended)[i] =
                make_float4(sum.x / all, sum.y / all, sum.z / all, sum.w / all);
        } else {
            float* const to = parts.values + (int64_t{h} * p.splits + at.split) * dim;
            reinterpret_cast<float4*>(to)[i % (dim / 4)] = sum;
        }
    }
    if (in_use > 1) {
        if (thread < p.group)
            parts.sums[thread * p.splits + at.split] = make_float2(of_head[thread].max, of_head[thread].sum);
        __syncthreads();
        if (thread == 0) {
            // The block's numbers, which the barrier orders before this thread, are seen by whoever comes later.
            __threadfence();
            uint32_t* const arrived = p.in.arrived + at.row * p.in.kv_heads + at.kv_head;
            last = atomicAdd(arrived, 1U) == static_cast<unsigned>(in_use - 1);
            if (last) atomicExch(arrived, 0U); // for the next launch
            __threadfence();
        }
        __syncthreads();
        if (!last) return;
        merge<HEADS>(p, at, parts, scores, of_head, attended);
    }
    if (at.row == 0 && p.in.score_sums != nullptr && thread < p.group)
        reinterpret_cast<float2*>(p.in.score_sums)[at.kv_head * p.group + thread] =
            make_float2(of_head[thread].max, of_head[thread].sum);
}

} // namespace

void launch_decode_attention(const DecodeAttentionInputs& in, void* stream) {
    RL_ASSERT(in.kv_heads > 0 && in.heads % in.kv_heads == 0);
    const int64_t group = in.heads / in.kv_heads;
    RL_ASSERT(group >= 1 && group <= decode::most_group);
    RL_ASSERT(in.head_dim > 0 && in.head_dim <= decode::most_head_dim);
    const Parameters p{in,
                       masks(in.dropout),
                       static_cast<int>(group),
                       static_cast<int>(in.head_dim),
                       static_cast<int>(decode::splits(in.capacity)),
                       static_cast<float>(1.0 / std::sqrt(static_cast<double>(in.head_dim))),
                       static_cast<float>(in.eps)};
    const LaunchShape shape = decode::attention(in.kv_heads, group, in.head_dim, in.rows, in.capacity);
    with_type(in.type, [&]<WeightType type>() {
        RL_ASSERT(in.head_dim % per_vector<type> == 0);
        const auto start = [&](auto kernel) { launch_step(in.dependent, kernel, shape, stream, p); };
        if (group == 1) return start(decode_attention_kernel<type, 1>);
        if (group == 2) return start(decode_attention_kernel<type, 2>);
        if (group <= 4) return start(decode_attention_kernel<type, 4>);
        if (group <= 8) return start(decode_attention_kernel<type, 8>);
        return start(decode_attention_kernel<type, 16>);
    });
}

} // namespace refreshlab::kernels::RL_GPU
