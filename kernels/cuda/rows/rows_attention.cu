#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/rows/rows_attention.cuh"

#include <algorithm>

/// Attention of many rows (rows_attention.cuh) over a cache of 16-bit numbers, by tensor cores.
///
/// Block   WARPS warps, 16 queries each: 6 warps, which are 32 rows of a group of 3, or 2 with head_dim above 128, whose queries take
///         twice the shared memory and whose sums twice the registers. More rows bring the columns less often. A warp multiplies
///         its queries [16, head_dim] with the keys of 32 columns, and the weights [16, 32], which stay in its registers, with the
///         values.
/// Numbers keys and values are multiplied as they are stored. A query, and a weight of the softmax, is split into what it rounds to and what
///         is left of it, rounded; both are multiplied: 16 (bf16) or 22 (f16) bits, so that a row differs from the fp32 units of a
///         decode step by little more than the order of its sums. That costs twice the products, of which there is no want: they are
///         16 times as many a second as those of fp32.
/// Memory  three blocks of keys and values (two with head_dim above 64) stand in shared memory, and so the next two (one) are under way
///         while one is multiplied. Queries stand in shared memory as their two parts, [queries][head_dim] each, rows 16 bytes apart; ldmatrix brings 8 rows of 16
///         bytes, which begin in different banks.
/// Order   of a score: 16 channels at a time in ascending order, of each first the rounded queries, then the rest. Of a block of 32 columns
///         the lane adds e^(score - maximum) of its 8 columns in ascending order, then the 4 lanes of a query as a tree; values are
///         added 16 columns at a time in the same manner as scores.
/// Bound   from some hundred columns on by shared memory, which is read twice for each product; below, by latency.
/// Source  online softmax, Milakov and Gimelshein 2018; tiles and registers, FlashAttention-2, Dao 2023; splits, Flash-Decoding, Dao et al.
///         2023; fragments, PTX ISA 9.0, section 9.7.14.5.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int warp_queries = 16, column_tiles = block_columns / 8;

/// What a lane knows of its queries g and g + 8 (lane = 4 g + t): maximum, sum of its own columns, and channels 8 n + 2 t and the next.
template <int TILES>
struct Running {
    float most[2], sum[2];
    float values[TILES][4];
};

/// Where lane 8 m + i of ldmatrix reads: row i of a matrix of 8 rows, of four that stand below each other and beside each other.
/// \param below  matrix 1 is the one below matrix 0, and 2 the one beside it; else the other way round
__device__ int matrix_offset(int row_bytes, bool below) {
    const int lane = static_cast<int>(threadIdx.x) % 32, low = lane / 8 % 2, high = lane / 16;
    return (lane % 8 + 8 * (below ? low : high)) * row_bytes + 16 * (below ? high : low);
}

/// The two parts of the tile's queries.
template <WeightType type>
__device__ void split_queries(const RowsAttention& p, const AttentionTile& tile, int queries,
                              unsigned char* rounded, unsigned char* rest) {
    const int quads = p.head_dim / 4;
    for (int i = static_cast<int>(threadIdx.x); i < queries * quads; i += static_cast<int>(blockDim.x)) {
        const float4 q = query_channels(p, tile, i / quads, i % quads * 4);
        const uint32_t low = rounded_pair<type>(q.x, q.y), high = rounded_pair<type>(q.z, q.w);
        const int at = i / quads * column_bytes<type>(p.head_dim) + i % quads * 8;
        *reinterpret_cast<uint2*>(rounded + at) = make_uint2(low, high);
        *reinterpret_cast<uint2*>(rest + at) =
            make_uint2(rest_pair<type>(q.x, q.y, low), rest_pair<type>(q.z, q.w, high));
    }
}

/// scores[n] of the columns 8 n to 8 n + 7. \param rounded, rest, keys  where the lane's first ldmatrix reads
template <WeightType type>
__device__ void make_scores(const unsigned char* rounded, const unsigned char* rest,
                            const unsigned char* keys, int head_dim, float (&scores)[column_tiles][4]) {
    constexpr bool bf16 = type == WeightType::bf16;
    const int row_bytes = column_bytes<type>(head_dim);
#pragma unroll
    for (int n = 0; n < column_tiles; ++n)
        scores[n][0] = scores[n][1] = scores[n][2] = scores[n][3] = 0;
#pragma unroll 2
    for (int channel = 0; channel < head_dim; channel += 16) {
        uint32_t a[4], b[4];
        ldmatrix_x4(a, rounded + channel * 2);
        ldmatrix_x4(b, rest + channel * 2);
#pragma unroll
        for (int n = 0; n < column_tiles; n += 2) {
            uint32_t k[4];
            ldmatrix_x4(k, keys + n * 8 * row_bytes + channel * 2);
            const uint32_t first[2] = {k[0], k[1]}, second[2] = {k[2], k[3]};
            mma_m16n8k16<bf16>(scores[n], a, first);
            mma_m16n8k16<bf16>(scores[n + 1], a, second);
            mma_m16n8k16<bf16>(scores[n], b, first);
            mma_m16n8k16<bf16>(scores[n + 1], b, second);
        }
    }
}

/// The block's columns join: scores become weights, and what was summed is scaled to the new maximum.
template <int TILES>
__device__ void join_columns(const RowsAttention& p, const AttentionTile& tile, int first_query,
                             int64_t column, float (&scores)[column_tiles][4], Running<TILES>& running) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int query = first_query + lane / 4 + 8 * half;
        float most = running.most[half];
        unsigned visible = 0; // a bit for each of the lane's columns
#pragma unroll
        for (int i = 0; i < column_tiles * 2; ++i) {
            float& score = scores[i / 2][half * 2 + i % 2];
            score = soft_capped(score * p.scale, p.cap);
            if (!sees(p, tile, query, column + i / 2 * 8 + lane % 4 * 2 + i % 2)) continue;
            visible |= 1U << i;
            most = fmaxf(most, score);
        }
        most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 1));
        most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 2));
        const float factor = running.most[half] == -INFINITY ? 0.0F : __expf(running.most[half] - most);
        float sum = 0;
#pragma unroll
        for (int i = 0; i < column_tiles * 2; ++i) {
            float& score = scores[i / 2][half * 2 + i % 2];
            score = (visible >> i & 1U) != 0 ? __expf(score - most) : 0.0F;
            sum = __fadd_rn(sum, score);
        }
        running.most[half] = most;
        running.sum[half] = fmaf(running.sum[half], factor, sum);
#pragma unroll
        for (int n = 0; n < TILES; ++n) {
            running.values[n][half * 2] = __fmul_rn(running.values[n][half * 2], factor);
            running.values[n][half * 2 + 1] = __fmul_rn(running.values[n][half * 2 + 1], factor);
        }
    }
}

/// \param values  where the lane's first ldmatrix reads
template <WeightType type, int TILES>
__device__ void add_values(const float (&weights)[column_tiles][4], const unsigned char* values, int head_dim,
                           Running<TILES>& running) {
    constexpr bool bf16 = type == WeightType::bf16;
#pragma unroll
    for (int c = 0; c < column_tiles; c += 2) { // 16 columns: the scores' layout is that of the left operand
        uint32_t a[4], b[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float x = weights[c + i / 2][i % 2 * 2], y = weights[c + i / 2][i % 2 * 2 + 1];
            a[i] = rounded_pair<type>(x, y);
            b[i] = rest_pair<type>(x, y, a[i]);
        }
#pragma unroll
        for (int n = 0; n < TILES; n += 2) {
            if (n * 8 >= head_dim) break;
            uint32_t v[4];
            ldmatrix_x4<true>(v, values + c * 8 * column_bytes<type>(head_dim) + n * 16);
            const uint32_t first[2] = {v[0], v[1]}, second[2] = {v[2], v[3]};
            mma_m16n8k16<bf16>(running.values[n], a, first);
            mma_m16n8k16<bf16>(running.values[n + 1], a, second);
            mma_m16n8k16<bf16>(running.values[n], b, first);
            mma_m16n8k16<bf16>(running.values[n + 1], b, second);
        }
    }
}

/// \tparam TILES  8 channels each, as many as the longest head_dim has. \tparam STAGES  blocks of keys and values in shared memory
template <WeightType type, int WARPS, int TILES, int STAGES>
__global__ void __launch_bounds__(32 * WARPS, 2) rows_attention_kernel(const RowsAttention p) {
    const int lane = static_cast<int>(threadIdx.x) % 32,
              first_query = static_cast<int>(threadIdx.x) / 32 * warp_queries;
    const int row_bytes = column_bytes<type>(p.head_dim);
    auto* const rounded = dynamic_shared<unsigned char>();
    unsigned char* const rest = rounded + WARPS * warp_queries * row_bytes;
    unsigned char* const stages = rest + WARPS * warp_queries * row_bytes; // keys and values of each
    const int values_at = block_columns * row_bytes;
    grid_allow_dependents();
    grid_dependency_wait();
    const AttentionTile tile = tile_of_block(p);
    if (tile.seen.begin >= tile.seen.end) return;
    const int64_t begin = tile.seen.begin / block_columns * block_columns;
    const int blocks = static_cast<int>((tile.seen.end - begin + block_columns - 1) / block_columns);
    const auto fetch = [&](int block) {
        if (block < blocks) {
            unsigned char* const to = stages + block % STAGES * 2 * values_at;
            fetch_columns<type>(p, tile, p.k, begin + block * block_columns, to);
            fetch_columns<type>(p, tile, p.v, begin + block * block_columns, to + values_at);
        }
        async_commit();
    };
#pragma unroll 1
    for (int block = 0; block < STAGES - 1; ++block)
        fetch(block);
    split_queries<type>(p, tile, WARPS * warp_queries, rounded, rest);

    const bool works = first_query < tile.queries; // the same for a whole warp
    const int of_query = first_query * row_bytes + matrix_offset(row_bytes, true);
    Running<TILES> running = {};
    running.most[0] = running.most[1] = -INFINITY;
    for (int block = 0; block < blocks; ++block) {
        async_wait<STAGES - 2>();
        __syncthreads(); // this block has come, and all are through with the one before
        fetch(block + STAGES - 1);
        if (!works) continue;
        const unsigned char* const keys = stages + block % STAGES * 2 * values_at;
        float scores[column_tiles][4];
        make_scores<type>(rounded + of_query, rest + of_query, keys + matrix_offset(row_bytes, false),
                          p.head_dim, scores);
        join_columns<TILES>(p, tile, first_query, begin + block * block_columns, scores, running);
        add_values<type, TILES>(scores, keys + values_at + matrix_offset(row_bytes, true), p.head_dim,
                                running);
    }
    if (!works) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float sum = running.sum[half];
        sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFU, sum, 1));
        sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFU, sum, 2));
        const int query = first_query + lane / 4 + 8 * half;
        if (query >= tile.queries) continue;
        const QueryPlace place = place_of_query(p, tile, query);
#pragma unroll
        for (int n = 0; n < TILES; ++n) {
            const int channel = n * 8 + lane % 4 * 2;
            if (n * 8 >= p.head_dim) break;
            const float x = running.values[n][half * 2], y = running.values[n][half * 2 + 1];
            if (place.part != nullptr) {
                store_two<WeightType::f32>(place.part + channel, x, y);
            } else {
                store_two<type>(attended_of<type>(p, place.row, place.head) + channel, mean(x, sum),
                                mean(y, sum));
            }
        }
        if (place.part != nullptr && lane % 4 == 0)
            store_four<WeightType::f32>(place.part + p.head_dim, running.most[half], sum, 0, 0);
    }
}

constexpr int merge_warps = static_cast<int>(rows::merge_warps), merge_threads = 32 * merge_warps;

/// A warp for each row and head: its splits in ascending order.
template <WeightType type, int QUADS>
__global__ void __launch_bounds__(merge_threads) rows_attention_merge_kernel(const RowsAttention p) {
    grid_allow_dependents();
    grid_dependency_wait();
    const int row = static_cast<int>(blockIdx.y), lane = static_cast<int>(threadIdx.x) % 32;
    const int head = static_cast<int>(blockIdx.x) * merge_warps + static_cast<int>(threadIdx.x) / 32;
    if (head >= p.heads) return;
    const Sight seen = sight(p.first + row, p.window);
    const int begin = static_cast<int>(seen.begin / split_columns) - p.first_split;
    const int end = static_cast<int>((seen.end - 1) / split_columns) - p.first_split + 1;
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
    Stored<type>* const to = attended_of<type>(p, row, head);
#pragma unroll
    for (int v = 0; v < QUADS; ++v) {
        const int channel = v * 128 + lane * 4;
        if (channel < p.head_dim)
            store_four<type>(to + channel, values[v][0] / sum, values[v][1] / sum, values[v][2] / sum,
                             values[v][3] / sum);
    }
}

template <WeightType type>
void start(const RowsAttention& p, const LaunchShape& shape, bool dependent, void* stream) {
    if constexpr (type == WeightType::f32) {
        launch_rows_attention_f32(p, shape, dependent, stream);
    } else if (p.head_dim <= 64) {
        launch_step(dependent, rows_attention_kernel<type, 6, 8, 3>, shape, stream, p);
    } else if (p.head_dim <= 128) {
        launch_step(dependent, rows_attention_kernel<type, 6, 16, 2>, shape, stream, p);
    } else {
        launch_step(dependent, rows_attention_kernel<type, 2, 32, 2>, shape, stream, p);
    }
}

template <WeightType type>
void merge_splits(const RowsAttention& p, bool dependent, void* stream) {
    const LaunchShape shape = rows::attention_merge(p.heads, p.rows);
    if (p.head_dim <= 128) {
        launch_step(dependent, rows_attention_merge_kernel<type, 1>, shape, stream, p);
    } else {
        launch_step(dependent, rows_attention_merge_kernel<type, 2>, shape, stream, p);
    }
}

} // namespace

void launch_rows_attention(const RowsAttentionInputs& in, void* stream) {
    RL_ASSERT(in.rows > 0 && in.heads % in.kv_heads == 0 && in.heads / in.kv_heads <= 16 &&
              in.head_dim % 16 == 0 && in.head_dim <= 256 && in.first + in.rows <= in.capacity);
    RowsAttention p{};
    p.qkv = in.qkv;
    p.k = in.k_cache;
    p.v = in.v_cache;
    p.attended = in.attended;
    p.heads = static_cast<int>(in.heads);
    p.group = static_cast<int>(in.heads / in.kv_heads);
    p.head_dim = static_cast<int>(in.head_dim);
    p.capacity = in.capacity;
    p.first = in.first;
    p.window = in.window;
    p.scale = static_cast<float>(in.query_scale) / std::sqrt(static_cast<float>(in.head_dim));
    p.cap = static_cast<float>(in.cap);
    const rows::AttentionForm form = rows::attention_form(in.type, p.group, in.head_dim);
    p.tile_rows = static_cast<int>(form.tile_rows);
    RL_ASSERT(in.parts != nullptr || rows::attention_splits_of(in.first, in.rows, in.window).count == 1);
    const int64_t at_once = rows::attention_rows_at_once(in.first, in.rows, in.window, in.capacity);
    for (int64_t done = 0; done < in.rows; done += at_once) {
        p.rows = static_cast<int>(std::min(at_once, in.rows - done));
        const rows::AttentionSplits splits = rows::attention_splits_of(p.first, p.rows, p.window);
        p.first_split = static_cast<int>(splits.first);
        p.splits = static_cast<int>(splits.count);
        p.parts = p.splits > 1 ? in.parts : nullptr;
        const LaunchShape shape = rows::attention(in.type, form, in.kv_heads, in.head_dim, p.rows, p.splits);
        with_type(in.type, [&]<WeightType type>() {
            start<type>(p, shape, in.dependent, stream);
            if (p.splits > 1) merge_splits<type>(p, in.dependent, stream);
            p.attended = static_cast<Stored<type>*>(p.attended) + p.rows * in.heads * in.head_dim;
        });
        p.first += p.rows;
        p.qkv += p.rows * (in.heads + 2 * in.kv_heads) * in.head_dim;
    }
}

} // namespace refreshlab::kernels::RL_GPU
