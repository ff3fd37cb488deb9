#pragma once

#include "kernels/cuda/decode/attention_merge.cuh"
#include "kernels/cuda/decode/elementwise.cuh"
#include "kernels/cuda/decode/rotate_head.cuh"
#include "kernels/cuda/decode/steps.cuh"
#include "kernels/cuda/decode/weights.cuh"

#include <cmath>

/// What attention over a dense cache (decode_attention.cu) and through lists (list_attention.cu) have in common: all but where the
/// entries of a split stand. Their story is decode_attention.cu's.
namespace refreshlab::kernels::RL_GPU::attention {

constexpr int warps = static_cast<int>(decode::attention_warps);
constexpr int attention_threads = 32 * warps;
constexpr int columns = static_cast<int>(decode::split_positions); ///< entries of a split
constexpr int keys_of_lane = columns / (attention_threads / 4);
static_assert(keys_of_lane == 4 && columns == attention_threads, "a thread writes one score of each head");
constexpr int most_group = static_cast<int>(decode::most_group);
constexpr int most_head_dim = static_cast<int>(decode::most_head_dim);
constexpr int of_lane = columns / 32; ///< entries of a split that a lane makes weights of

struct Parameters {
    DecodeAttentionInputs in;
    Masks masks;
    int group, head_dim, splits, merge_teams;
    float scale, cap;
    HeadNumbers head;
};

/// What a block knows of its place, all threads the same. Entries have numbers within the split: those of a dense cache are its columns,
/// those of a list stand beside each other in it.
struct Place {
    int row, kv_head, split;
    int first_split, last_split; ///< that have a visible entry
    int begin;                   ///< of all entries, the split's number 0
    int low, cached;             ///< of the split's entries [low, cached) are read from the cache
    int own;                     ///< number of the row's own entry in the split; -1: in another split
    int position;
    __device__ bool reads(int number) const { return number >= low && number < cached; }
    __device__ bool sees(int number) const { return reads(number) || number == own; }
};

/// The row that a block works for. \return false: the step has no such row
__device__ inline bool find_row(const Parameters& p, Place& at) {
    at.split = static_cast<int>(blockIdx.x);
    at.kv_head = static_cast<int>(blockIdx.y);
    at.row = static_cast<int>(blockIdx.z);
    at.position = static_cast<int>(p.in.state->position);
    return at.row <= p.in.state->passes;
}
/// Entries that a row sees: [first, length), and its own behind them.
struct Range {
    int first, length;
};
/// What the block reads of them. \return false: nothing
__device__ inline bool find_split(Place& at, const Range& range) {
    const auto [first, length] = range;
    at.first_split = first / columns;
    at.last_split = length / columns;
    if (at.split < at.first_split || at.split > at.last_split) return false;
    at.begin = at.split * columns;
    at.low = first > at.begin ? first - at.begin : 0;
    at.cached = length - at.begin < columns ? length - at.begin : columns;
    at.own = at.split == at.last_split ? at.cached : -1;
    return true;
}

/// Where numbers of a split stand in shared memory.
template <WeightType type>
struct SplitMemory {
    float* queries;      ///< [group, head_dim]
    Stored<type>* key;   ///< the row's own, as stored
    Stored<type>* value; ///< the same
    float* scores;       ///< [group, columns]
    float* sums;         ///< [attention_sums, group, head_dim]
    __device__ SplitMemory(const Parameters& p, float* memory)
        : queries(memory)
        , key(reinterpret_cast<Stored<type>*>(memory + p.group * p.head_dim))
        , value(reinterpret_cast<Stored<type>*>(memory + (p.group + 1) * p.head_dim))
        , scores(memory + (p.group + 2) * p.head_dim)
        , sums(scores + p.group * columns) {}
};

/// q, k and v of a row, before norm and RoPE, as a product has left them in global memory.
struct LeftQkv {
    const float *q, *k, *v; ///< of the KV head: q [group, head_dim]
    __device__ LeftQkv(const Parameters& p, const Place& at) {
        const int heads = static_cast<int>(p.in.heads), kv_heads = static_cast<int>(p.in.kv_heads);
        const float* const row = p.in.qkv + int64_t{at.row} * (heads + 2 * kv_heads) * p.head_dim;
        q = row + at.kv_head * p.group * p.head_dim;
        k = row + (heads + at.kv_head) * p.head_dim;
        v = row + (heads + kv_heads + at.kv_head) * p.head_dim;
    }
    [[nodiscard]] __device__ float query(int i) const { return __ldcg(q + i); }
    [[nodiscard]] __device__ float key(int i) const { return __ldcg(k + i); }
    [[nodiscard]] __device__ float value(int i) const { return __ldcg(v + i); }
};

/// Queries into shared memory.
template <WeightType type, typename Qkv, typename Rotation>
__device__ void prepare_queries(const Parameters& p, const Qkv& qkv, const Rotation& turn, float* queries) {
    const int dim = p.head_dim;
    for (int h = static_cast<int>(threadIdx.x / 32); h < p.group; h += warps) {
        float* const query = queries + h * dim;
        rotate_numbers<type>([&](int channel) { return qkv.query(h * dim + channel); }, p.head.q_norm,
                             p.head.eps, turn, dim, [query](int channel, float x) { query[channel] = x; });
    }
}
/// Own key and value, as stored, into shared memory and by row 0 into the cache at row `own_row`; nothing where another split has them.
template <WeightType type, typename Qkv, typename Rotation>
__device__ void prepare_own(const Parameters& p, const Place& at, const Qkv& qkv, const Rotation& turn,
                            int64_t own_row, const SplitMemory<type>& memory) {
    if (at.own < 0) return;
    const int dim = p.head_dim;
    const int64_t column = own_row * dim;
    // By the last warp, which has no query where there are fewer than eight.
    if (threadIdx.x / 32 == warps - 1) {
        auto* const cache = static_cast<Stored<type>*>(p.in.k_cache) + column;
        rotate_numbers<type>([&](int channel) { return qkv.key(channel); }, p.head.k_norm, p.head.eps, turn,
                             dim,
                             [&](int channel, float x) {
                                 const Stored<type> stored = to_stored<type>(x);
                                 memory.key[channel] = stored;
                                 if (at.row == 0) cache[channel] = stored;
                             });
    }
    for (int channel = static_cast<int>(threadIdx.x); channel < dim; channel += attention_threads) {
        const Stored<type> stored = to_stored<type>(qkv.value(channel));
        memory.value[channel] = stored;
        if (at.row == 0) static_cast<Stored<type>*>(p.in.v_cache)[column + channel] = stored;
    }
}

/// Scores of all keys of the split, for all heads; 0 where there is no key.
template <WeightType type, int HEADS, typename Entries>
__device__ void make_scores(const Parameters& p, const Place& at, const Entries& entries, const uint4* keys,
                            const uint4* own_key, const float* queries, float* scores) {
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
                raw[k] = __ldcg(keys + int64_t{entries.row(first + k)} * vectors + v);
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
        scores[h * columns + static_cast<int>(threadIdx.x)] = soft_capped(__fmul_rn(mine, p.scale), p.cap);
    }
}

/// Maximum of a split's scores and sum of e^(score - maximum), of each head; in `scores` e^(score - maximum) under the mask of the row, 0
/// where the row sees nothing. A lane has eight entries; where they are columns, one call of Philox serves them (shared/philox.h).
template <typename Entries>
__device__ void make_weights(const Parameters& p, const Place& at, const Entries& entries,
                             const StepState& state, float* scores, Sums* of_head) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int block = lane / 16 * static_cast<int>(shared::mask_block), within = lane % 16;
    for (int h = static_cast<int>(threadIdx.x / 32); h < p.group; h += warps) {
        float* const score = scores + h * columns + block + within;
        const int head = at.kv_head * p.group + h;
        float x[of_lane], max = -INFINITY, sum = 0, weighted = 0;
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
            const bool seen = at.sees(block + i * 16 + within);
            const float below = __fadd_rn(x[i], -max);
            x[i] = seen ? expf(below) : 0.0F;
            sum = __fadd_rn(sum, x[i]);
            if (seen) weighted = fmaf(x[i], below, weighted);
        }
        sum = warp_sum(sum);
        if (p.in.entropies != nullptr) weighted = warp_sum(weighted);
        if (lane == 0) of_head[h] = {max, sum, weighted};
        if (at.row > 0 && p.masks.threshold > 0) {
            const shared::MaskStream stream = masks_of(state, p.masks.site, p.masks.layer, at.row,
                                                       static_cast<uint32_t>(head), p.masks.threshold);
            bool kept[of_lane];
            entries.kept(stream, at, block, within, kept);
#pragma unroll
            for (int i = 0; i < of_lane; ++i)
                x[i] = kept[i] ? __fmul_rn(x[i], p.masks.scale) : 0.0F;
        }
#pragma unroll
        for (int i = 0; i < of_lane; ++i)
            score[i * 16] = x[i];
    }
}

/// sums [half the warps of a set, group, head_dim]: what the warps of a set have added up of weight times value.
template <WeightType type, int HEADS, typename Entries>
__device__ void add_values(const Parameters& p, const Place& at, const Entries& entries, const uint4* values,
                           const uint4* own_value, const float* weights, float* sums_of_warps) {
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
                    raw[c] = __ldcg(values + int64_t{entries.row(column + c)} * vectors + v);
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

/// Scores, weights and sums of values of a split, whose queries and own entry are there: maxima and sums in `of_head`, and in the memory's sums what
/// split_sum() adds up. Ends with a barrier.
/// \param entries  row(number): where an entry of the split stands, counted from keys and values; kept(): what dropout keeps of a lane's
///                 entries
template <WeightType type, int HEADS, typename Entries>
__device__ void make_split(const Parameters& p, const Place& at, const Entries& entries,
                           const StepState& state, const SplitMemory<type>& memory, Sums* of_head) {
    make_scores<type, HEADS>(p, at, entries, reinterpret_cast<const uint4*>(entries.keys),
                             reinterpret_cast<const uint4*>(memory.key), memory.queries, memory.scores);
    __syncthreads();
    make_weights(p, at, entries, state, memory.scores, of_head);
    __syncthreads();
    add_values<type, HEADS>(p, at, entries, reinterpret_cast<const uint4*>(entries.values),
                            reinterpret_cast<const uint4*>(memory.value), memory.scores, memory.sums);
}
/// Four channels of a head: what the warps have added up becomes the split's.
/// \param i  of group * head_dim / 4
template <int HEADS>
__device__ inline float4 split_sum(const Parameters& p, const float* sums, int i) {
    constexpr int of_warps = warps / (HEADS > 8 ? 4 : 2);
    float4 sum = reinterpret_cast<const float4*>(sums)[i];
#pragma unroll
    for (int w = 1; w < of_warps; ++w)
        sum = add_fours(sum, reinterpret_cast<const float4*>(sums)[w * p.group * p.head_dim / 4 + i]);
    return sum;
}

/// Splits of a row's query heads in global memory: their sums of values [rows, heads, splits, head_dim], and behind those of all rows
/// (maximum, sum of e^(score - maximum)) [rows, heads, splits]; of row 0, where entropies are wanted, the weighted sums [heads, splits].
struct Parts {
    float* values;
    float2* sums;
    float* weighted;
    int splits, head_dim;
    __device__ Parts(const Parameters& p, const Place& at)
        : splits(p.splits)
        , head_dim(p.head_dim) {
        const int64_t all = p.in.rows * p.in.heads * p.splits;
        const int64_t first = (at.row * p.in.heads + int64_t{at.kv_head} * p.group) * p.splits;
        values = p.in.parts + first * p.head_dim;
        sums = reinterpret_cast<float2*>(p.in.parts + all * p.head_dim) + first;
        weighted = p.in.entropy_parts == nullptr
                       ? nullptr
                       : p.in.entropy_parts + int64_t{at.kv_head} * p.group * p.splits;
    }
    [[nodiscard]] __device__ int64_t place(int head, int split) const {
        return int64_t{head} * splits + split;
    }
    [[nodiscard]] __device__ float4* four(int place_of_row, int split) const {
        const int of_head = head_dim / 4;
        return reinterpret_cast<float4*>(values + place(place_of_row / of_head, split) * head_dim) +
               place_of_row % of_head;
    }
    // What merge() and put_entropies() ask.
    [[nodiscard]] __device__ float4 value(int place_of_row, int split) const {
        return __ldcg(four(place_of_row, split));
    }
    [[nodiscard]] __device__ float2 sum(int head, int split) const {
        return __ldcg(sums + place(head, split));
    }
    [[nodiscard]] __device__ float weighted_sum(int head, int split) const {
        return __ldcg(weighted + place(head, split));
    }
};

/// All that a block does once it knows what it reads.
/// \param entries  as make_split()'s; own_row(): where the row's own stands in the layer's cache
/// \param of_head  shared memory, [most_group]
/// \param last     shared memory
template <WeightType type, int HEADS, typename Entries>
__device__ void attend(const Parameters& p, const Place& at, const Entries& entries, Sums* of_head,
                       bool& last) {
    const StepState state = *p.in.state;
    const int dim = p.head_dim, thread = static_cast<int>(threadIdx.x);
    const SplitMemory<type> memory(p, dynamic_shared<float>());

    grid_dependency_wait();
    const LeftQkv qkv(p, at);
    const Turn turn = turn_of(p.in.cos, p.in.sin, p.head.turned_pairs, at.position);
    prepare_queries<type>(p, qkv, turn, memory.queries);
    prepare_own<type>(p, at, qkv, turn, entries.own_row(), memory);
    __syncthreads();
    make_split<type, HEADS>(p, at, entries, state, memory, of_head);

    // The split's sums, or all there is.
    const int in_use = at.last_split - at.first_split + 1;
    const Parts parts(p, at);
    float* const attended = p.in.attended + (at.row * p.in.heads + int64_t{at.kv_head} * p.group) * dim;
    for (int i = thread; i < p.group * dim / 4; i += attention_threads) {
        const float4 sum = split_sum<HEADS>(p, memory.sums, i);
        if (in_use == 1) {
            const float all = of_head[i / (dim / 4)].sum;
            reinterpret_cast<float4*>(attended)[i] =
                make_float4(sum.x / all, sum.y / all, sum.z / all, sum.w / all);
        } else {
            *parts.four(i, at.split) = sum;
        }
    }
    const bool entropies = at.row == 0 && p.in.entropies != nullptr;
    if (in_use > 1) {
        if (thread < p.group) {
            const int64_t place = parts.place(thread, at.split);
            parts.sums[place] = make_float2(of_head[thread].max, of_head[thread].sum);
            if (entropies) parts.weighted[place] = of_head[thread].weighted;
        }
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
        const int of_row = dim / 4;
        merge({0, 1, p.group * of_row, of_row, p.merge_teams}, at.first_split, at.last_split, parts,
              reinterpret_cast<Merged*>(memory.scores),
              [&](int place, const Merged& m) { finish_place(m, place, of_row, attended, of_head); });
        __syncthreads(); // of_head is there
        if (entropies) {
            for (int h = thread / 32; h < p.group; h += warps)
                put_entropy(at.first_split, at.last_split, parts, h, of_head[h],
                            p.in.entropies + at.kv_head * p.group + h);
        }
    } else if (entropies && thread < p.group) {
        p.in.entropies[at.kv_head * p.group + thread] =
            entropy_bits(of_head[thread].sum, of_head[thread].weighted);
    }
    if (at.row == 0 && p.in.score_sums != nullptr && thread < p.group)
        reinterpret_cast<float2*>(p.in.score_sums)[at.kv_head * p.group + thread] =
            make_float2(of_head[thread].max, of_head[thread].sum);
}

/// Kernels' numbers of a launch's inputs.
[[nodiscard]] inline Parameters parameters_of(const DecodeAttentionInputs& in) {
    RL_ASSERT(in.kv_heads > 0 && in.heads % in.kv_heads == 0);
    const int64_t group = in.heads / in.kv_heads;
    RL_ASSERT(group >= 1 && group <= decode::most_group);
    RL_ASSERT(in.head_dim > 0 && in.head_dim <= decode::most_head_dim);
    return {in,
            masks(in.dropout),
            static_cast<int>(group),
            static_cast<int>(in.head_dim),
            static_cast<int>(decode::splits(in.capacity)),
            static_cast<int>(decode::merge_teams(group, in.head_dim)),
            static_cast<float>(in.query_scale / std::sqrt(static_cast<double>(in.head_dim))),
            static_cast<float>(in.cap),
            head_numbers(in)};
}
/// Calls the kernel's instance: start.template operator()<type, HEADS>().
template <typename Start>
auto with_type_and_heads(const DecodeAttentionInputs& in, const Start& start) {
    const int64_t group = in.heads / in.kv_heads;
    return with_type(in.type, [&]<WeightType type>() {
        RL_ASSERT(in.head_dim % per_vector<type> == 0);
        if (group == 1) return start.template operator()<type, 1>();
        if (group == 2) return start.template operator()<type, 2>();
        if (group <= 4) return start.template operator()<type, 4>();
        if (group <= 8) return start.template operator()<type, 8>();
        return start.template operator()<type, 16>();
    });
}

/// What both launchers make of their inputs. \param start  called with the kernel's instance: start.template operator()<type, HEADS>(p, shape)
template <typename Start>
void launch_attention(const DecodeAttentionInputs& in, const Start& start) {
    const Parameters p = parameters_of(in);
    const LaunchShape shape = decode::attention(in.kv_heads, p.group, in.head_dim, in.rows, in.capacity);
    with_type_and_heads(
        in, [&]<WeightType type, int HEADS>() { start.template operator()<type, HEADS>(p, shape); });
}

} // namespace refreshlab::kernels::RL_GPU::attention
