#pragma once

#include "kernels/cuda/decode/attention_entries.cuh"
#include "kernels/cuda/decode/block_products.h"
#include "kernels/cuda/decode/qkv_attention.h"
#include "kernels/cuda/decode/row_products.cuh"
#include "kernels/cuda/device/cluster.cuh"

/// What q | k | v with attention over a dense cache (qkv_attention.cu) and through lists (qkv_list_attention.cu) have in common: all but where
/// entries stand. Their story is qkv_attention.cu's.
namespace refreshlab::kernels::RL_GPU::joined {

using namespace attention;

constexpr int outputs = static_cast<int>(decode::outputs_per_warp);
/// Blocks that an SM has registers for: sums of more heads take more than half of them.
template <int HEADS>
constexpr int blocks_of_sm = HEADS > 4 ? 1 : 2;

struct Parameters {
    attention::Parameters attending;
    InputRows in;
    float width, eps;
    Matrix q, k, v;
    int cluster; ///< blocks of it
    int places;  ///< of four channels, that a block merges at most
    decode::JoinedShared shared;
};

/// What the splits of the KV head have left in this block's shared memory: of its places, and of all heads.
struct Left {
    const float4* values; ///< [splits, places]
    const Sums* sums;     ///< [splits, group]
    int places, group, cluster;
    [[nodiscard]] __device__ float4 value(int place, int split) const {
        return values[split * places + place / cluster];
    }
    [[nodiscard]] __device__ float2 sum(int head, int split) const {
        const Sums& s = sums[split * group + head];
        return make_float2(s.max, s.sum);
    }
    [[nodiscard]] __device__ float weighted_sum(int head, int split) const {
        return sums[split * group + head].weighted;
    }
};

/// q, k and v before norm and RoPE, which all blocks of the cluster have brought here.
struct BroughtQkv {
    const float *q, *k, *v;
    [[nodiscard]] __device__ float query(int i) const { return q[i]; }
    [[nodiscard]] __device__ float key(int i) const { return k[i]; }
    [[nodiscard]] __device__ float value(int i) const { return v[i]; }
};

/// The block's place: its rank in the cluster, and its KV head.
struct Member {
    int rank, kv_head;
};

/// An output of the KV head's q | k | v: its matrix and its row there.
struct Output {
    const void *data, *bias;
    int64_t row;
};
__device__ inline Output output_of(const Parameters& p, int kv_head, int o) {
    const int dim = p.attending.head_dim, queries = p.attending.group * dim;
    if (o < queries) return {p.q.data, p.q.bias, int64_t{kv_head} * queries + o};
    o -= queries;
    const Matrix& m = o < dim ? p.k : p.v;
    return {m.data, m.bias, int64_t{kv_head} * dim + o % dim};
}
/// Pairs of outputs of the KV head; pair i is made by warp i / cluster % warps of block i % cluster.
__device__ inline int pairs_of(const Parameters& p) {
    return (p.attending.group + 2) * p.attending.head_dim / outputs;
}
/// Rows of the matrices of a pair. What lies behind the last is read as the last.
template <WeightType type>
__device__ inline void find_rows(const Parameters& p, const Member& me, int pair,
                                 const uint4* (&matrix)[outputs]) {
    const int last = pairs_of(p) - 1;
#pragma unroll
    for (int o = 0; o < outputs; ++o) {
        const Output output = output_of(p, me.kv_head, (pair < last ? pair : last) * outputs + o);
        matrix[o] = matrix_row<type>(output.data, p.in.inputs, output.row);
    }
}

/// Calls body(pair) for each pair of the warp, and as often in all warps of the cluster. \param body  returns false to end
template <typename Body>
__device__ inline void for_each_pair(const Parameters& p, const Member& me, const Body& body) {
    const int all = static_cast<int>(decode::product_warps) * p.cluster;
    const int mine = static_cast<int>(threadIdx.x / 32) * p.cluster + me.rank;
    for (int begin = 0; begin < pairs_of(p); begin += all) {
        if (!body(begin + mine, begin == 0)) return;
    }
}

/// q, k and v of the KV head into `qkv` of all blocks. The first of a cluster's barriers is waited for on the way.
template <WeightType type>
__device__ void make_qkv(const Parameters& p, const Member& me, float* tile, SquareParts<1>& squares,
                         float* qkv) {
    constexpr int lanes = lanes_of_sum<outputs>; // that have the same output: each brings it to a block
    static_assert(lanes >= decode::most_cluster);
    const bool whole = p.in.inputs <= tile_inputs<1>;
    for_each_pair(p, me, [&](int pair, bool first) {
        const bool there = pair < pairs_of(p);
        if (!there && !first && whole) return false; // nobody waits for the warp
        const uint4* matrix[outputs];
        find_rows<type>(p, me, pair, matrix);
        const float sum = multiply<type, 1, outputs, true>(p.in, 1, matrix, tile, first, &squares);
        if (first) cluster_wait(); // all blocks have begun
        if (!there) return true;
        const Share<1, outputs> share;
        const int o = pair * outputs + share.output, to = static_cast<int>(threadIdx.x) % lanes;
        float y = __fmul_rn(sum, inverse_rms(p.in.norm, squares, 0, p.width, p.eps));
        const Output output = output_of(p, me.kv_head, o);
        if (output.bias != nullptr) y = __fadd_rn(y, weight_at<type>(output.bias, output.row));
        if (to < p.cluster) *in_cluster_block(qkv + o, to) = y;
        return true;
    });
}

/// What a split has left goes to the blocks that merge it: sums of values place by place, maxima and sums to all.
template <int HEADS>
__device__ void bring_split(const Parameters& p, int split, const float* sums_of_warps, const Sums* of_head,
                            float4* values, Sums* sums) {
    const int group = p.attending.group, all = group * p.attending.head_dim / 4;
    for (int i = static_cast<int>(threadIdx.x); i < all; i += attention_threads)
        *in_cluster_block(values + split * p.places + i / p.cluster, i % p.cluster) =
            split_sum<HEADS>(p.attending, sums_of_warps, i);
    for (int i = static_cast<int>(threadIdx.x); i < group * p.cluster; i += attention_threads)
        *in_cluster_block(sums + split * group + i % group, i / group) = of_head[i % group];
}

/// The block's places, of all splits.
__device__ inline void merge_places(const Parameters& p, const Member& me, const Place& at, const Left& left,
                                    Merged* memory, Sums* of_head) {
    const DecodeAttentionInputs& in = p.attending.in;
    const int group = p.attending.group, dim = p.attending.head_dim, of_row = dim / 4, all = group * of_row;
    float* const attended = in.attended + int64_t{me.kv_head} * group * dim;
    const auto finish = [&](int place, const Merged& m) {
        finish_place(m, place, of_row, attended, of_head);
    };
    if (at.first_split == at.last_split) {
        for (int i = me.rank + static_cast<int>(threadIdx.x) * p.cluster; i < all;
             i += attention_threads * p.cluster) {
            const float2 sums = left.sum(i / of_row, at.first_split);
            finish(i, Merged{left.value(i, at.first_split), sums.x, sums.y});
        }
    } else {
        merge({me.rank, p.cluster, (all - me.rank + p.cluster - 1) / p.cluster, of_row,
               p.attending.merge_teams},
              at.first_split, at.last_split, left, memory, finish);
    }
    if (in.entropies == nullptr && in.score_sums == nullptr) return;
    __syncthreads(); // of_head is there
    // Of heads whose first place is the block's.
    for (int h = static_cast<int>(threadIdx.x / 32); h < group; h += warps) {
        if (h * of_row % p.cluster != me.rank) continue;
        const int head = me.kv_head * group + h;
        if (in.entropies != nullptr)
            put_entropy(at.first_split, at.last_split, left, h, of_head[h], in.entropies + head);
        if (in.score_sums != nullptr && threadIdx.x % 32 == 0)
            reinterpret_cast<float2*>(in.score_sums)[head] = make_float2(of_head[h].max, of_head[h].sum);
    }
}

/// All that a block does. \param listed  shared memory, [2, Source::listed_entries]
template <typename Source, WeightType type, int HEADS>
__device__ void attend_joined(const Parameters& p, Sums* of_head, SquareParts<1>& squares,
                              ListEntry* listed) {
    const attention::Parameters& a = p.attending;
    const Member me{static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y)};
    float* const all = dynamic_shared<float>();
    float* const qkv = all + p.shared.qkv;
    float* const turns = all + p.shared.turns;
    auto* const values = reinterpret_cast<float4*>(all + p.shared.values);
    auto* const sums = reinterpret_cast<Sums*>(all + p.shared.sums);
    const SplitMemory<type> memory(a, all + p.shared.own); // the product's inputs before

    cluster_arrive();
    for_each_pair(p, me, [&](int pair, bool) {
        const uint4* matrix[outputs];
        find_rows<type>(p, me, pair, matrix);
#pragma unroll
        for (int o = 0; o < outputs; ++o)
            prefetch_by_warp(matrix[o], int64_t{p.in.inputs} * static_cast<int>(sizeof(Stored<type>)));
        return true;
    });
    // The state stands there since before the step, and the columns that are read since earlier steps.
    const StepState state = *a.in.state;
    Place at{};
    at.kv_head = me.kv_head;
    at.position = static_cast<int>(state.position);
    const Range range = Source::range(a, at);
    at.first_split = range.first / columns;
    at.last_split = range.length / columns;
    // Splits of the block: every one whose number has its rank as the rest.
    const int first = at.first_split + (me.rank - at.first_split % p.cluster + p.cluster) % p.cluster;
    const auto ask = [&](int split) {
        at.split = split;
        if (!find_split(at, range)) return;
        typename Source::Split(a, at, listed + split / p.cluster % 2 * Source::listed_entries).ask(a, at);
    };
    ask(first);
    const Turn turn = turn_of(a.in.cos, a.in.sin, a.head.turned_pairs, at.position);
    for (int i = static_cast<int>(threadIdx.x); i < turn.pairs; i += attention_threads) {
        turns[i] = turn.cosine(i);
        turns[turn.pairs + i] = turn.sine(i);
    }

    grid_dependency_wait();
    make_qkv<type>(p, me, all + p.shared.own, squares, qkv);
    cluster_arrive();
    cluster_wait(); // q, k and v have come
    const int queries = a.group * a.head_dim;
    const BroughtQkv brought{qkv, qkv + queries, qkv + queries + a.head_dim};
    const SharedTurn kept{{turns, turns + turn.pairs, turn.pairs}};
    if (first <= at.last_split) prepare_queries<type>(a, brought, kept, memory.queries);
    for (int split = first; split <= at.last_split; split += p.cluster) {
        ask(split + p.cluster); // while this one is worked on
        at.split = split;
        (void)find_split(at, range);
        const typename Source::Split entries(a, at, listed + split / p.cluster % 2 * Source::listed_entries);
        prepare_own<type>(a, at, brought, kept, entries.own_row(), memory);
        __syncthreads();
        make_split<type, HEADS>(a, at, entries, state, memory, of_head);
        bring_split<HEADS>(p, split, memory.sums, of_head, values, sums);
    }
    cluster_arrive();
    cluster_wait(); // what all splits have left has come, and nobody brings anything any more
    merge_places(p, me, at, {values, sums, p.places, a.group, p.cluster},
                 reinterpret_cast<Merged*>(memory.scores), of_head);
}

// What both launchers do with their inputs.
[[nodiscard]] inline bool joins(const QkvAttentionInputs& in) {
    const DecodeAttentionInputs& a = in.attention;
    return in.qkv.rows == 1 && a.rows == 1 && !in_blocks(in.qkv.matrices[0]) &&
           !in_blocks(in.qkv.matrices[1]) && !in_blocks(in.qkv.matrices[2]) &&
           decode::joins_attention(in.qkv.type, a.kv_heads, a.heads / a.kv_heads, a.head_dim, in.qkv.hidden,
                                   a.capacity);
}
[[nodiscard]] inline LaunchShape shape_of(const QkvAttentionInputs& in) {
    const DecodeAttentionInputs& a = in.attention;
    return decode::qkv_attention(a.kv_heads, a.heads / a.kv_heads, a.head_dim, in.qkv.hidden, a.capacity);
}
[[nodiscard]] inline Parameters parameters_of(const QkvAttentionInputs& in) {
    const DecodeAttentionInputs& a = in.attention;
    RL_ASSERT(in.qkv.rows == 1 && a.rows == 1 &&
              in.qkv.hidden % (in.qkv.type == WeightType::f32 ? 4 : 8) == 0);
    RL_ASSERT(
        decode::can_join_attention(a.kv_heads, a.heads / a.kv_heads, a.head_dim, in.qkv.hidden, a.capacity));
    const int64_t group = a.heads / a.kv_heads, of_heads[3] = {a.heads, a.kv_heads, a.kv_heads};
    for (int m = 0; m < 3; ++m)
        RL_ASSERT(in.qkv.matrices[m].outputs == of_heads[m] * a.head_dim &&
                  in.qkv.matrices[m].inputs == in.qkv.hidden);
    const auto cluster = decode::joined_cluster(a.kv_heads, group, a.head_dim);
    return {attention::parameters_of(a),
            {in.qkv.x, static_cast<int>(in.qkv.hidden), norm_weights(in.qkv.norm, in.qkv.norm_offset)},
            static_cast<float>(in.qkv.width),
            static_cast<float>(in.qkv.eps),
            in.qkv.matrices[0],
            in.qkv.matrices[1],
            in.qkv.matrices[2],
            static_cast<int>(cluster),
            static_cast<int>(decode::joined_places(cluster, group, a.head_dim)),
            decode::joined_shared(a.kv_heads, group, a.head_dim, in.qkv.hidden, a.capacity)};
}

} // namespace refreshlab::kernels::RL_GPU::joined
