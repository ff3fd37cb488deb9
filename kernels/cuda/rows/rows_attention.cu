#include "kernels/cuda/decode/steps.cuh"
#include "kernels/cuda/decode/weights.cuh"
#include "kernels/cuda/device/async_copy.cuh"
#include "kernels/cuda/rows/row_kernels.h"

#include <algorithm>

/// attended[r, h] = sum_c p[c] v[c], p = softmax over the columns c that row r sees of q[r, h] k[c] / sqrt(head_dim); query head h reads the
/// KV head h / group. Row r stands at column first + r, and sees the columns up to its own, the last `window` of them.
///
/// Grid    [tiles of rows, KV heads, splits of 512 columns], 4 warps. A tile has as many rows as have 32 query heads of the KV head (16 with
///         head_dim above 128), at least one; a warp has 8 (4) of these queries. Keys and values of 32 columns are brought once for the
///         whole tile.
/// Memory  queries as fp32, and one block of keys and one of values as they are stored, each with 16 bytes between rows, so that neighbouring
///         lanes read in different banks. cp.async brings the next keys while values are added up, and the next values while scores are
///         made. Columns that no row of the tile sees are not read.
/// Order   blocks of 32 columns ascend, and begin at multiples of 32. A score is one fused multiply-add after the other over ascending
///         channels, in the lane of its column; the sum of e^(score - maximum) over a block is a tree of lanes, that of the values one
///         after the other over ascending columns. Blocks that a row does not see change nothing of it. Splits begin at multiples of
///         512 and are merged in ascending order by a second kernel; what one split has seen alone has the same bits with and
///         without it. So a row has the same bits whatever rows are in the pass.
/// Bound   by fp32 units: a tile multiplies every column with 32 queries.
/// Source  online softmax, Milakov and Gimelshein 2018; tiles, FlashAttention-2, Dao 2023; splits, Flash-Decoding, Dao et al. 2023.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int attention_warps = 4, attention_threads = 32 * attention_warps, block_columns = 32;

/// Queries of a warp, where each lane has QUADS vectors of four channels.
template <int QUADS>
constexpr int warp_queries = QUADS == 1 ? 8 : 4;

struct Parameters {
    const float* qkv;
    const void *k, *v;
    float *attended, *parts; ///< parts is null where there is one split
    int heads, group, head_dim, rows, tile_rows;
    int first_split, splits;
    int64_t capacity, first, window;
    float scale;
};

/// Columns that a row sees: [begin, end).
struct Sight {
    int64_t begin, end;
};
__host__ __device__ Sight sight(int64_t position, int64_t window) {
    return {window > 0 && position >= window ? position - window + 1 : 0, position + 1};
}

template <WeightType type>
__host__ __device__ constexpr int stored_row_bytes(int head_dim) {
    return head_dim * static_cast<int>(sizeof(Stored<type>)) + 16;
}

/// Columns [column, column + 32) of a KV head, and zeros where the tile sees none.
template <WeightType type>
__device__ void fetch_columns(const void* cache, int64_t column, const Sight& seen, int head_dim,
                              unsigned char* to) {
    const int vectors = head_dim / per_vector<type>;
    const auto* const from = static_cast<const uint4*>(cache);
    for (int i = static_cast<int>(threadIdx.x); i < block_columns * vectors; i += attention_threads) {
        const int within = i / vectors, vector = i % vectors;
        const int64_t at = column + within;
        const bool inside = at >= seen.begin && at < seen.end;
        async_copy_16(to + within * stored_row_bytes<type>(head_dim) + vector * 16,
                      from + (inside ? at : seen.begin) * vectors + vector, inside ? 16 : 0);
    }
    async_commit();
}

/// Four stored numbers.
template <WeightType type>
__device__ void read_four(const unsigned char* from, float (&out)[4]) {
    if constexpr (type == WeightType::f32) {
        unpack<type>(*reinterpret_cast<const uint4*>(from), 0, out);
    } else {
        uint2 raw = make_uint2(0, 0);
        raw = *reinterpret_cast<const uint2*>(from);
        const unsigned pairs[2] = {raw.x, raw.y};
#pragma unroll
        for (int i = 0; i < 4; ++i)
            out[i] = to_float<type>(static_cast<uint16_t>(pairs[i / 2] >> 16 * (i % 2)));
    }
}

/// What a warp knows of its queries: maximum, sum and weighted values so far.
template <int QUADS>
struct Running {
    float most[warp_queries<QUADS>], sum[warp_queries<QUADS>];
    float values[warp_queries<QUADS>][QUADS][4];
};

template <WeightType type, int QUERIES>
__device__ void make_scores(const float* queries, const unsigned char* key, int head_dim,
                            float (&scores)[QUERIES]) {
#pragma unroll
    for (int i = 0; i < QUERIES; ++i)
        scores[i] = 0;
    for (int v = 0; v < head_dim / per_vector<type>; ++v) {
        const uint4 raw = *reinterpret_cast<const uint4*>(key + v * 16);
#pragma unroll
        for (int part = 0; part < per_vector<type> / 4; ++part) {
            float k[4];
            unpack<type>(raw, part, k);
#pragma unroll
            for (int i = 0; i < QUERIES; ++i) {
                const float4 q = *reinterpret_cast<const float4*>(queries + i * (head_dim + 4) +
                                                                  v * per_vector<type> + part * 4);
                scores[i] = fmaf(q.x, k[0], scores[i]);
                scores[i] = fmaf(q.y, k[1], scores[i]);
                scores[i] = fmaf(q.z, k[2], scores[i]);
                scores[i] = fmaf(q.w, k[3], scores[i]);
            }
        }
    }
}

/// The lane's column joins: scores become weights, and what was summed is scaled to the new maximum.
template <int QUADS>
__device__ void join_column(const Parameters& p, int first_row, int first_query, int tile_queries,
                            int64_t column, float (&scores)[warp_queries<QUADS>], Running<QUADS>& running) {
#pragma unroll
    for (int i = 0; i < warp_queries<QUADS>; ++i) {
        const int query = first_query + i;
        const Sight seen = sight(p.first + first_row + query / p.group, p.window);
        const bool visible = query < tile_queries && column >= seen.begin && column < seen.end;
        const float score = visible ? scores[i] * p.scale : -INFINITY;
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
template <WeightType type, int QUADS>
__device__ void add_values(const float* weights, const unsigned char* values, int head_dim,
                           Running<QUADS>& running) {
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
            float x[4];
            read_four<type>(values + c * stored_row_bytes<type>(head_dim) +
                                channel * static_cast<int>(sizeof(Stored<type>)),
                            x);
#pragma unroll
            for (int i = 0; i < warp_queries<QUADS>; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    running.values[i][v][j] = fmaf(w[i], x[j], running.values[i][v][j]);
            }
        }
    }
}

/// Where a query's result goes, or its share of a split: [rows, heads, splits, head_dim + 4], the last four being maximum, sum and nothing.
__device__ inline float* part_of(const Parameters& p, int row, int head, int split) {
    return p.parts + ((int64_t{row} * p.heads + head) * p.splits + split) * (p.head_dim + 4);
}

/// The weighted mean. Adding 0 makes a -0 what it is when splits are merged.
__device__ inline float4 divided(const float (&values)[4], float sum) {
    return make_float4(__fadd_rn(values[0], 0.0F) / sum, __fadd_rn(values[1], 0.0F) / sum,
                       __fadd_rn(values[2], 0.0F) / sum, __fadd_rn(values[3], 0.0F) / sum);
}

template <WeightType type, int QUADS>
__global__ void __launch_bounds__(attention_threads) rows_attention_kernel(const Parameters p) {
    constexpr int queries = warp_queries<QUADS>;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int row_bytes = stored_row_bytes<type>(p.head_dim);
    auto* const q = dynamic_shared<float>();
    float* const weights = q + attention_warps * queries * (p.head_dim + 4) + warp * block_columns * queries;
    auto* const keys =
        reinterpret_cast<unsigned char*>(q + attention_warps * queries * (p.head_dim + 4 + block_columns));
    unsigned char* const values = keys + block_columns * row_bytes;
    grid_allow_dependents();
    grid_dependency_wait();

    const int first_row = static_cast<int>(blockIdx.x) * p.tile_rows, kv_head = static_cast<int>(blockIdx.y);
    const int live = p.rows - first_row < p.tile_rows ? p.rows - first_row : p.tile_rows;
    const int tile_queries = live * p.group;
    const int64_t split_begin =
        (int64_t{p.first_split} + static_cast<int>(blockIdx.z)) * rows_attention_split;
    // What the tile sees of the split.
    Sight seen{sight(p.first + first_row, p.window).begin,
               sight(p.first + first_row + live - 1, p.window).end};
    if (seen.begin < split_begin) seen.begin = split_begin;
    if (seen.end > split_begin + rows_attention_split) seen.end = split_begin + rows_attention_split;
    if (seen.begin >= seen.end) return;

    const int64_t head_at =
        int64_t{kv_head} * p.capacity * p.head_dim * static_cast<int>(sizeof(Stored<type>));
    const void* const k_cache = static_cast<const unsigned char*>(p.k) + head_at;
    const void* const v_cache = static_cast<const unsigned char*>(p.v) + head_at;
    int64_t column = seen.begin / block_columns * block_columns;
    fetch_columns<type>(k_cache, column, seen, p.head_dim, keys);

    const int all_heads = p.heads + 2 * (p.heads / p.group), quads = p.head_dim / 4;
    for (int i = static_cast<int>(threadIdx.x); i < attention_warps * queries * quads;
         i += attention_threads) {
        const int query = i / quads, channel = i % quads * 4;
        float4 four = make_float4(0, 0, 0, 0);
        if (query < tile_queries) {
            const int64_t row = first_row + query / p.group;
            const int head = kv_head * p.group + query % p.group;
            four = *reinterpret_cast<const float4*>(p.qkv + (row * all_heads + head) * p.head_dim + channel);
        }
        *reinterpret_cast<float4*>(q + query * (p.head_dim + 4) + channel) = four;
    }

    Running<QUADS> running = {};
#pragma unroll
    for (int i = 0; i < queries; ++i)
        running.most[i] = -INFINITY;
    for (; column < seen.end; column += block_columns) {
        async_wait<0>();
        __syncthreads(); // keys have come, and all are through with the values
        fetch_columns<type>(v_cache, column, seen, p.head_dim, values);
        float scores[queries];
        make_scores<type>(q + warp * queries * (p.head_dim + 4), keys + lane * row_bytes, p.head_dim, scores);
        join_column<QUADS>(p, first_row, warp * queries, tile_queries, column + lane, scores, running);
#pragma unroll
        for (int i = 0; i < queries; i += 4)
            *reinterpret_cast<float4*>(weights + lane * queries + i) =
                make_float4(scores[i], scores[i + 1], scores[i + 2], scores[i + 3]);
        async_wait<0>();
        __syncthreads(); // values and weights are there, and all are through with the keys
        if (column + block_columns < seen.end)
            fetch_columns<type>(k_cache, column + block_columns, seen, p.head_dim, keys);
        add_values<type, QUADS>(weights, values, p.head_dim, running);
    }
#pragma unroll
    for (int i = 0; i < queries; ++i) {
        const int query = warp * queries + i;
        if (query >= tile_queries) break;
        const int row = first_row + query / p.group, head = kv_head * p.group + query % p.group;
        float* const to = p.parts != nullptr ? part_of(p, row, head, static_cast<int>(blockIdx.z))
                                             : p.attended + (int64_t{row} * p.heads + head) * p.head_dim;
#pragma unroll
        for (int v = 0; v < QUADS; ++v) {
            const int channel = v * 128 + lane * 4;
            if (channel >= p.head_dim) break;
            const float(&own)[4] = running.values[i][v];
            *reinterpret_cast<float4*>(to + channel) = p.parts != nullptr
                                                           ? make_float4(own[0], own[1], own[2], own[3])
                                                           : divided(own, running.sum[i]);
        }
        if (p.parts != nullptr && lane == 0)
            *reinterpret_cast<float4*>(to + p.head_dim) = make_float4(running.most[i], running.sum[i], 0, 0);
    }
}

/// A warp for each row and head: its splits in ascending order.
template <int QUADS>
__global__ void __launch_bounds__(attention_threads) rows_attention_merge_kernel(const Parameters p) {
    grid_allow_dependents();
    grid_dependency_wait();
    const int row = static_cast<int>(blockIdx.y), lane = static_cast<int>(threadIdx.x) % 32;
    const int head = static_cast<int>(blockIdx.x) * attention_warps + static_cast<int>(threadIdx.x) / 32;
    if (head >= p.heads) return;
    const Sight seen = sight(p.first + row, p.window);
    const int begin = static_cast<int>(seen.begin / rows_attention_split) - p.first_split;
    const int end = static_cast<int>((seen.end - 1) / rows_attention_split) - p.first_split + 1;
    float most = -INFINITY;
    for (int s = begin + lane; s < end; s += 32)
        most = fmaxf(most, part_of(p, row, head, s)[p.head_dim]);
    most = warp_max(most);
    float sum = 0, values[QUADS][4] = {};
    for (int s = begin; s < end; ++s) {
        const float* const part = part_of(p, row, head, s);
        const float2 own = *reinterpret_cast<const float2*>(part + p.head_dim);
        const float factor = __expf(own.x - most);
        sum = fmaf(own.y, factor, sum);
#pragma unroll
        for (int v = 0; v < QUADS; ++v) {
            const int channel = v * 128 + lane * 4;
            if (channel >= p.head_dim) break;
            const float4 four = *reinterpret_cast<const float4*>(part + channel);
            values[v][0] = fmaf(four.x, factor, values[v][0]);
            values[v][1] = fmaf(four.y, factor, values[v][1]);
            values[v][2] = fmaf(four.z, factor, values[v][2]);
            values[v][3] = fmaf(four.w, factor, values[v][3]);
        }
    }
    float* const to = p.attended + (int64_t{row} * p.heads + head) * p.head_dim;
#pragma unroll
    for (int v = 0; v < QUADS; ++v) {
        const int channel = v * 128 + lane * 4;
        if (channel < p.head_dim) *reinterpret_cast<float4*>(to + channel) = divided(values[v], sum);
    }
}

template <WeightType type, int QUADS>
void launch_attention(Parameters p, int64_t rows, bool dependent, void* stream) {
    constexpr int tile_queries = attention_warps * warp_queries<QUADS>;
    p.tile_rows = std::max(tile_queries / p.group, 1);
    const int floats = tile_queries * (p.head_dim + 4 + block_columns);
    const int shared_bytes = floats * 4 + 2 * block_columns * stored_row_bytes<type>(p.head_dim);
    const auto split_of = [](int64_t column) { return static_cast<int>(column / rows_attention_split); };
    const int all = split_of(p.first + rows - 1) - split_of(sight(p.first, p.window).begin) + 1;
    RL_ASSERT(all == 1 || p.parts != nullptr);
    const int64_t at_once = all == 1 ? rows : rows_attention_rows;
    float* const parts = p.parts;
    for (int64_t done = 0; done < rows; done += at_once) {
        p.rows = static_cast<int>(std::min(at_once, rows - done));
        p.first_split = split_of(sight(p.first, p.window).begin);
        p.splits = split_of(p.first + p.rows - 1) - p.first_split + 1;
        p.parts = p.splits > 1 ? parts : nullptr;
        const LaunchShape shape{{static_cast<uint32_t>((p.rows + p.tile_rows - 1) / p.tile_rows),
                                 static_cast<uint32_t>(p.heads / p.group), static_cast<uint32_t>(p.splits)},
                                {attention_threads, 1, 1},
                                static_cast<uint32_t>(shared_bytes)};
        launch_step(dependent, rows_attention_kernel<type, QUADS>, shape, stream, p);
        if (p.splits > 1) {
            const LaunchShape merge{{static_cast<uint32_t>((p.heads + attention_warps - 1) / attention_warps),
                                     static_cast<uint32_t>(p.rows), 1},
                                    {attention_threads, 1, 1},
                                    0};
            launch_step(dependent, rows_attention_merge_kernel<QUADS>, merge, stream, p);
        }
        p.first += p.rows;
        p.qkv += int64_t{p.rows} * (p.heads + 2 * (p.heads / p.group)) * p.head_dim;
        p.attended += int64_t{p.rows} * p.heads * p.head_dim;
    }
}

} // namespace

void launch_rows_attention(const RowsAttentionInputs& in, void* stream) {
    RL_ASSERT(in.rows > 0 && in.heads % in.kv_heads == 0 && in.heads / in.kv_heads <= 16 &&
              in.head_dim % 16 == 0 && in.head_dim <= 256 && in.first + in.rows <= in.capacity);
    Parameters p{};
    p.qkv = in.qkv;
    p.k = in.k_cache;
    p.v = in.v_cache;
    p.attended = in.attended;
    p.parts = in.parts;
    p.heads = static_cast<int>(in.heads);
    p.group = static_cast<int>(in.heads / in.kv_heads);
    p.head_dim = static_cast<int>(in.head_dim);
    p.capacity = in.capacity;
    p.first = in.first;
    p.window = in.window;
    p.scale = 1.0F / std::sqrt(static_cast<float>(in.head_dim));
    with_type(in.type, [&]<WeightType type>() {
        if (in.head_dim <= 128) {
            launch_attention<type, 1>(p, in.rows, in.dependent, stream);
        } else {
            launch_attention<type, 2>(p, in.rows, in.dependent, stream);
        }
    });
}

} // namespace refreshlab::kernels::RL_GPU
