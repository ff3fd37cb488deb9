#include "kernels/cuda/rows/rows_attention.cuh"

/// Attention of many rows (rows_attention.cuh) over a cache in fp32, which no tensor core multiplies unrounded: by fp32 units.
///
/// Block   4 warps, 8 queries each, 4 with head_dim above 128. A lane has one of the 32 columns while scores are made, and channels
///         4 i to 4 i + 3 of the values (two such runs above 128). One block of keys and one of values stand in shared memory: the next
///         keys come while values are added up, the next values while scores are made.
/// Order   a score is one fused multiply-add after the other over ascending channels; the sum of e^(score - maximum) over a block of columns
///         is a tree of lanes, that of the values one after the other over ascending columns.
/// Bound   by fp32 units: every column is multiplied with up to 32 queries.
/// Source  online softmax, Milakov and Gimelshein 2018; tiles, FlashAttention-2, Dao 2023; splits, Flash-Decoding, Dao et al. 2023.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int attention_warps = static_cast<int>(rows::attention_warps_f32),
              attention_threads = 32 * attention_warps;
constexpr WeightType f32 = WeightType::f32;

/// Queries of a warp, where each lane has QUADS vectors of four channels.
template <int QUADS>
constexpr int warp_queries = QUADS == 1 ? 8 : 4;

/// What a warp knows of its queries: maximum, sum and weighted values so far.
template <int QUADS>
struct Running {
    float most[warp_queries<QUADS>], sum[warp_queries<QUADS>];
    float values[warp_queries<QUADS>][QUADS][4];
};

/// Scores of the lane's column.
template <int QUERIES>
__device__ void make_scores(const float* queries, const float* key, int head_dim, float (&scores)[QUERIES]) {
#pragma unroll
    for (int i = 0; i < QUERIES; ++i)
        scores[i] = 0;
    for (int channel = 0; channel < head_dim; channel += 4) {
        const float4 k = *reinterpret_cast<const float4*>(key + channel);
#pragma unroll
        for (int i = 0; i < QUERIES; ++i) {
            const float4 q = *reinterpret_cast<const float4*>(queries + i * (head_dim + 4) + channel);
            scores[i] = fmaf(q.x, k.x, scores[i]);
            scores[i] = fmaf(q.y, k.y, scores[i]);
            scores[i] = fmaf(q.z, k.z, scores[i]);
            scores[i] = fmaf(q.w, k.w, scores[i]);
        }
    }
}

/// The lane's column joins: scores become weights, and what was summed is scaled to the new maximum.
template <int QUADS>
__device__ void join_column(const RowsAttention& p, const AttentionTile& tile, int first_query,
                            int64_t column, float (&scores)[warp_queries<QUADS>], Running<QUADS>& running) {
#pragma unroll
    for (int i = 0; i < warp_queries<QUADS>; ++i) {
        const bool visible = sees(p, tile, first_query + i, column);
        const float score = visible ? soft_capped(scores[i] * p.scale, p.cap) : -INFINITY;
        const float most = fmaxf(running.most[i], warp_max(score));
        const float weight = visible ? __expf(score - most) : 0.0F;
        const float factor = running.most[i] == -INFINITY ? 0.0F : __expf(running.most[i] - most);
        running.most[i] = most;
        running.sum[i] = fmaf(running.sum[i], factor, warp_sum(weight));
#pragma unroll
        for (int v = 0; v < QUADS; ++v) {
#pragma unroll
            for (int j = 0; j < 4; ++j)
                running.values[i][v][j] = __fmul_rn(running.values[i][v][j], factor);
        }
        scores[i] = weight;
    }
}

/// \param weights  [columns][queries] of the warp
template <int QUADS>
__device__ void add_values(const float* weights, const float* values, int head_dim, Running<QUADS>& running) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 4
    for (int c = 0; c < block_columns; ++c) {
        float w[warp_queries<QUADS>];
#pragma unroll
        for (int i = 0; i < warp_queries<QUADS>; i += 4) {
            const float4 four = *reinterpret_cast<const float4*>(weights + c * warp_queries<QUADS> + i);
            w[i] = four.x;
            w[i + 1] = four.y;
            w[i + 2] = four.z;
            w[i + 3] = four.w;
        }
#pragma unroll
        for (int v = 0; v < QUADS; ++v) {
            const int channel = v * 128 + lane * 4;
            if (channel >= head_dim) break;
            const float4 x = *reinterpret_cast<const float4*>(values + c * (head_dim + 4) + channel);
#pragma unroll
            for (int i = 0; i < warp_queries<QUADS>; ++i) {
                float(&sums)[4] = running.values[i][v];
                sums[0] = fmaf(w[i], x.x, sums[0]);
                sums[1] = fmaf(w[i], x.y, sums[1]);
                sums[2] = fmaf(w[i], x.z, sums[2]);
                sums[3] = fmaf(w[i], x.w, sums[3]);
            }
        }
    }
}

template <int QUADS>
__global__ void __launch_bounds__(attention_threads) rows_attention_f32_kernel(const RowsAttention p) {
    constexpr int queries = warp_queries<QUADS>, all_queries = attention_warps * queries;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int stride = p.head_dim + 4; // column_bytes
    auto* const q = dynamic_shared<float>();
    float* const weights = q + all_queries * stride + warp * block_columns * queries;
    float* const keys = q + all_queries * (stride + block_columns);
    float* const values = keys + block_columns * stride;
    grid_allow_dependents();
    grid_dependency_wait();
    const AttentionTile tile = tile_of_block(p);
    if (tile.seen.begin >= tile.seen.end) return;
    const auto fetch = [&](const void* cache, int64_t column, float* to) {
        fetch_columns<f32>(p, tile, cache, column, reinterpret_cast<unsigned char*>(to));
        async_commit();
    };
    int64_t column = tile.seen.begin / block_columns * block_columns;
    fetch(p.k, column, keys);
    const int quads = p.head_dim / 4;
    for (int i = static_cast<int>(threadIdx.x); i < all_queries * quads; i += attention_threads)
        *reinterpret_cast<float4*>(q + i / quads * stride + i % quads * 4) =
            query_channels(p, tile, i / quads, i % quads * 4);

    Running<QUADS> running = {};
#pragma unroll
    for (int i = 0; i < queries; ++i)
        running.most[i] = -INFINITY;
    for (; column < tile.seen.end; column += block_columns) {
        async_wait<0>();
        __syncthreads(); // keys have come, and all are through with the values
        fetch(p.v, column, values);
        float scores[queries];
        make_scores(q + warp * queries * stride, keys + lane * stride, p.head_dim, scores);
        join_column<QUADS>(p, tile, warp * queries, column + lane, scores, running);
#pragma unroll
        for (int i = 0; i < queries; i += 4)
            *reinterpret_cast<float4*>(weights + lane * queries + i) =
                make_float4(scores[i], scores[i + 1], scores[i + 2], scores[i + 3]);
        async_wait<0>();
        __syncthreads(); // values and weights are there, and all are through with the keys
        if (column + block_columns < tile.seen.end) fetch(p.k, column + block_columns, keys);
        add_values<QUADS>(weights, values, p.head_dim, running);
    }
#pragma unroll
    for (int i = 0; i < queries; ++i) {
        const int query = warp * queries + i;
        if (query >= tile.queries) break;
        const QueryPlace place = place_of_query(p, tile, query);
        const float sum = running.sum[i];
#pragma unroll
        for (int v = 0; v < QUADS; ++v) {
            const int channel = v * 128 + lane * 4;
            if (channel >= p.head_dim) break;
            const float(&own)[4] = running.values[i][v];
            if (place.part != nullptr) {
                store_four<f32>(place.part + channel, own[0], own[1], own[2], own[3]);
            } else {
                store_four<f32>(attended_of<f32>(p, place.row, place.head) + channel, mean(own[0], sum),
                                mean(own[1], sum), mean(own[2], sum), mean(own[3], sum));
            }
        }
        if (place.part != nullptr && lane == 0)
            store_four<f32>(place.part + p.head_dim, running.most[i], sum, 0, 0);
    }
}

} // namespace

void launch_rows_attention_f32(const RowsAttention& p, const LaunchShape& shape, bool dependent,
                               void* stream) {
    if (p.head_dim <= 128) {
        launch_step(dependent, rows_attention_f32_kernel<1>, shape, stream, p);
    } else {
        launch_step(dependent, rows_attention_f32_kernel<2>, shape, stream, p);
    }
}

} // namespace refreshlab::kernels::RL_GPU
