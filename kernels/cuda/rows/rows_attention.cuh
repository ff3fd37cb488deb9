#pragma once

#include "kernels/cuda/decode/elementwise.cuh"
#include "kernels/cuda/decode/steps.cuh"
#include "kernels/cuda/decode/weights.cuh"
#include "kernels/cuda/device/async_copy.cuh"
#include "kernels/cuda/rows/rounded.cuh"
#include "kernels/cuda/rows/row_kernels.h"

/// What the two kernels of attention have in common: tensor cores (rows_attention.cu) and fp32 units (rows_attention_f32.cu).
///
///   attended[r, h] = sum_c p[c] v[c], p = softmax over the columns c that row r sees of cap(query_scale q[r, h] k[c] / sqrt(head_dim)),
///   rounded to the type of the cache
///
/// Query head h reads the KV head h / group. Row r stands at column first + r, and sees the columns up to its own, the last `window` of them.
///
/// Grid    [tiles of rows, KV heads, splits of 256 columns]. A tile has all query heads of a KV head for as many rows as its warps hold
///         queries, at least one row. Keys and values of 32 columns are brought once for the whole tile.
/// Memory  blocks of keys and values in shared memory as they are stored, with 16 bytes between rows, so that neighbouring rows begin in
///         different banks; cp.async brings the next ones meanwhile. Columns that no row of the tile sees are not read.
/// Order   blocks of 32 columns ascend, and begin at multiples of 32. Blocks that a row does not see change nothing of it. Splits begin at
///         multiples of 256 and are merged in ascending order by a kernel of its own; what one split has seen alone has the same bits
///         with and without it. So a row has the same bits whatever rows are in the pass.
namespace refreshlab::kernels::RL_GPU {

inline constexpr int block_columns = static_cast<int>(rows::attention_columns);
inline constexpr int64_t split_columns = rows::attention_split;
using rows::Sight;
using rows::sight;

struct RowsAttention {
    const float* qkv;
    const void *k, *v;
    void* attended;
    float* parts; ///< null where there is one split
    int heads, group, head_dim, rows;
    int tile_rows;
    int first_split, splits;
    int64_t capacity, first, window;
    float scale, cap;
};

template <WeightType type>
__host__ __device__ constexpr int column_bytes(int head_dim) {
    return head_dim * static_cast<int>(sizeof(Stored<type>)) + 16;
}

/// A block's tile and split.
struct AttentionTile {
    int first_row, queries, kv_head; ///< query i is of row first_row + i / group
    Sight seen;                      ///< by any row of the tile, of the split; may be empty
};
__device__ inline AttentionTile tile_of_block(const RowsAttention& p) {
    AttentionTile tile{};
    tile.first_row = static_cast<int>(blockIdx.x) * p.tile_rows;
    const int rows = p.rows - tile.first_row < p.tile_rows ? p.rows - tile.first_row : p.tile_rows;
    tile.queries = rows * p.group;
    tile.kv_head = static_cast<int>(blockIdx.y);
    const int64_t begin = (int64_t{p.first_split} + static_cast<int>(blockIdx.z)) * split_columns;
    const int64_t end = begin + split_columns;
    const Sight first = sight(p.first + tile.first_row, p.window),
                last = sight(p.first + tile.first_row + rows - 1, p.window);
    tile.seen = {first.begin > begin ? first.begin : begin, last.end < end ? last.end : end};
    return tile;
}

/// Does query `query` of the tile see the column?
__device__ inline bool sees(const RowsAttention& p, const AttentionTile& tile, int query, int64_t column) {
    const Sight seen = sight(p.first + tile.first_row + query / p.group, p.window);
    return query < tile.queries && column >= seen.begin && column < seen.end;
}

/// Four channels of a query; zeros behind the last one.
__device__ inline float4 query_channels(const RowsAttention& p, const AttentionTile& tile, int query,
                                        int channel) {
    if (query >= tile.queries) return make_float4(0, 0, 0, 0);
    const int64_t row = tile.first_row + query / p.group;
    const int head = tile.kv_head * p.group + query % p.group, all = p.heads + 2 * (p.heads / p.group);
    return *reinterpret_cast<const float4*>(p.qkv + (row * all + head) * p.head_dim + channel);
}

/// Columns [column, column + 32) of the tile's KV head, and zeros where the tile sees none. All threads of the block come here.
template <WeightType type>
__device__ inline void fetch_columns(const RowsAttention& p, const AttentionTile& tile, const void* cache,
                                     int64_t column, unsigned char* to) {
    const int vectors = p.head_dim / per_vector<type>;
    const auto* const from = static_cast<const uint4*>(cache) + tile.kv_head * p.capacity * vectors;
    const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
    int within = thread / vectors, vector = thread % vectors;
    while (within < block_columns) {
        const int64_t at = column + within;
        const bool inside = at >= tile.seen.begin && at < tile.seen.end;
        async_copy_16(to + within * column_bytes<type>(p.head_dim) + vector * 16,
                      from + (inside ? at : tile.seen.begin) * vectors + vector, inside ? 16 : 0);
        within += threads / vectors;
        vector += threads % vectors;
        if (vector < vectors) continue;
        vector -= vectors;
        ++within;
    }
}

/// A query's share of a split: [rows, heads, splits, head_dim + 4], the last four being maximum, sum and nothing.
__device__ inline float* part_of(const RowsAttention& p, int64_t row, int head, int split) {
    return p.parts + ((row * p.heads + head) * p.splits + split) * (p.head_dim + 4);
}
/// Where the result of a row and head goes.
template <WeightType type>
__device__ inline Stored<type>* attended_of(const RowsAttention& p, int64_t row, int head) {
    return static_cast<Stored<type>*>(p.attended) + (row * p.heads + head) * p.head_dim;
}

/// A query of the tile, and its share of the block's split; null where that is the whole.
struct QueryPlace {
    int64_t row;
    int head;
    float* part;
};
__device__ inline QueryPlace place_of_query(const RowsAttention& p, const AttentionTile& tile, int query) {
    const int64_t row = tile.first_row + query / p.group;
    const int head = tile.kv_head * p.group + query % p.group;
    return {row, head, p.parts == nullptr ? nullptr : part_of(p, row, head, static_cast<int>(blockIdx.z))};
}

/// What a sum of values comes to. Adding 0 makes of a -0 what it is when splits are merged.
__device__ inline float mean(float values, float sum) {
    return __fadd_rn(values, 0.0F) / sum;
}

/// rows_attention_f32.cu.
void launch_rows_attention_f32(const RowsAttention& attention, const LaunchShape& shape, bool dependent,
                               void* stream);

} // namespace refreshlab::kernels::RL_GPU
