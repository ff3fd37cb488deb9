#pragma once

#include "kernels/decode/launch_shapes.h"
#include "kernels/shared/host_device.h"

#include <algorithm>
#include <array>
#include <cstdint>

/// How the kernels of a pass of many rows are launched (kernels/cuda/rows), as plain numbers: the launchers and the plan that is read
/// without a GPU take them from here, so that both speak of the same launches.
namespace refreshlab::kernels::rows {

[[nodiscard]] constexpr int64_t blocks_for(int64_t n, int64_t of_a_block) {
    return (n + of_a_block - 1) / of_a_block;
}
[[nodiscard]] constexpr LaunchShape shape_of(int64_t x, int64_t y, int64_t z, int64_t threads,
                                             int64_t shared_bytes = 0) {
    return {{static_cast<uint32_t>(x), static_cast<uint32_t>(y), static_cast<uint32_t>(z)},
            {static_cast<uint32_t>(threads), 1, 1},
            static_cast<uint32_t>(shared_bytes)};
}

// --- embedding, norm, and what stands between q | k | v and attention: a block a row, or a warp a head ------------------------------
inline constexpr int64_t embed_threads = 128, norm_threads = 256, append_warps = 4;
[[nodiscard]] constexpr LaunchShape embed(int64_t rows) {
    return shape_of(rows, 1, 1, embed_threads);
}
[[nodiscard]] constexpr LaunchShape norm(int64_t rows) {
    return shape_of(rows, 1, 1, norm_threads);
}
/// \param heads  of q, k and v together
[[nodiscard]] constexpr LaunchShape append(int64_t rows, int64_t heads) {
    return shape_of(blocks_for(heads, append_warps), rows, 1, 32 * append_warps);
}

// --- products by tensor cores ----------------------------------------------------------------------------------------------------
inline constexpr int64_t stage_inputs = 64, stage_row_bytes = stage_inputs * 2; ///< of an output, or a row
inline constexpr int64_t most_pairs = 4;                                        ///< of warps, of a block
/// And of a block with two tiles and 64 rows, where the second cache would be the limit. An SM holds one such block.
inline constexpr int64_t wide_pairs = 6;

/// Bytes of 16 outputs in a stage.
[[nodiscard]] constexpr int64_t tile_stage_bytes(MatrixForm matrix) {
    return matrix == MatrixForm::numbers ? 16 * stage_row_bytes
                                         : stage_inputs / block_width * tile_bytes(matrix);
}
/// Bytes of a stage: `tiles` of 16 outputs for each pair of warps, and `row_tiles` of 8 rows.
[[nodiscard]] constexpr int64_t stage_bytes(MatrixForm matrix, int64_t tiles, int64_t row_tiles,
                                            int64_t pairs) {
    return tiles * pairs * tile_stage_bytes(matrix) + row_tiles * 8 * stage_row_bytes;
}
/// As many as 96 KB hold (a block of sm_86, 89 and 120 has 99), at most 8.
[[nodiscard]] constexpr int64_t product_stages(MatrixForm matrix, int64_t tiles, int64_t row_tiles,
                                               bool wide) {
    const int64_t pairs = wide ? wide_pairs : most_pairs;
    return std::min<int64_t>(98304 / stage_bytes(matrix, tiles, row_tiles, pairs), 8);
}
/// 8, 16, 32, 64 or 128 rows are one group.
[[nodiscard]] constexpr int64_t product_row_tiles(int64_t rows) {
    return rows <= 8 ? 1 : rows <= 16 ? 2 : rows <= 32 ? 4 : rows <= 64 ? 8 : 16;
}

inline constexpr int64_t multiprocessors = 132; ///< of an H100 or H200, for which blocks are shaped
/// What all multiprocessors together could take, over what the second cache gives them: 64 bytes a clock each are 2.7 times 5.5 TB/s. Less
/// here, as few blocks also have few bytes under way.
inline constexpr int64_t cache_shortage = 2;

/// A sum over many inputs that has few outputs is made in parts of the inputs, by blocks side by side: so there are enough blocks, and they are
/// large, each of which brings all activations. As few parts as keep the second cache busy with blocks of 128 outputs, as each part is written
/// and read for all rows and outputs; none shorter than `least_part`. It is no matter of rows, so a row keeps its bits (kernels/cuda/rows/parts.cuh).
inline constexpr int64_t least_part = 1024, most_parts = 8;
/// \return 1: the sum is whole, as by fp32 units
[[nodiscard]] constexpr int64_t product_parts(WeightType type, int64_t inputs, int64_t outputs) {
    const int64_t blocks = blocks_for(outputs, 2 * 16 * most_pairs);
    const int64_t parts = blocks_for(multiprocessors / cache_shortage, blocks);
    return type == WeightType::f32 ? 1
                                   : std::clamp<int64_t>(std::min(parts, inputs / least_part), 1, most_parts);
}
/// Stages of each part; the last may have fewer.
[[nodiscard]] constexpr int64_t part_stages(int64_t inputs, int64_t parts) {
    return blocks_for(blocks_for(inputs, stage_inputs), parts);
}

/// How a product is cut into blocks.
struct ProductForm {
    MatrixForm matrix = MatrixForm::numbers;
    int64_t parts = 1;                 ///< of the inputs
    int64_t row_tiles = 1, groups = 1; ///< of 8 rows; groups of so many tiles
    int64_t tiles = 1, pairs = 1;      ///< of 16 outputs for a pair of warps; pairs of a block
    int64_t across = 1;                ///< outputs of a block
    int64_t blocks = 1;                ///< of a group
    int64_t stages = 1;
    [[nodiscard]] constexpr bool wide() const { return pairs > most_pairs; }
};
/// The shape of blocks whose reading takes least: a block reads weights and activations, the blocks of a multiprocessor read one after the
/// other, and all together from the second cache. Few large blocks leave multiprocessors idle, many small ones bring the activations often.
/// \param gated  two matrices with the same outputs, which are the two tiles of a pair
/// \param parts  of the inputs: product_parts(), or 1
[[nodiscard]] constexpr ProductForm product_form(MatrixForm matrix, int64_t rows, int64_t outputs, bool gated,
                                                 int64_t parts) {
    ProductForm best;
    int64_t least = 0;
    for (int64_t tiles = 2; tiles >= (gated ? 2 : 1); --tiles) {
        for (const int64_t pairs : {wide_pairs, most_pairs, most_pairs / 2, most_pairs / 4}) {
            ProductForm form;
            form.matrix = matrix;
            form.parts = parts;
            form.row_tiles = product_row_tiles(rows);
            form.groups = blocks_for(rows, form.row_tiles * 8);
            form.tiles = tiles;
            form.pairs = pairs;
            form.across = 16 * pairs * (gated ? 1 : tiles);
            form.blocks = blocks_for(outputs, form.across);
            if (form.wide() && (tiles < 2 || form.row_tiles != 8)) continue;
            form.stages = product_stages(matrix, tiles, form.row_tiles, form.wide());
            const int64_t all = form.blocks * form.groups * parts, turns = blocks_for(all, multiprocessors);
            const int64_t time = std::max(turns * multiprocessors, all * cache_shortage) *
                                 (16 * pairs * tiles + form.row_tiles * 8);
            if (least != 0 && time >= least) continue; // the larger block where others are no better
            least = time;
            best = form;
        }
    }
    return best;
}
[[nodiscard]] constexpr LaunchShape product(const ProductForm& form) {
    return shape_of(form.groups, form.blocks, form.parts, 64 * form.pairs,
                    form.stages * stage_bytes(form.matrix, form.tiles, form.row_tiles, form.pairs));
}

// --- products by fp32 units --------------------------------------------------------------------------------------------------------
inline constexpr int64_t f32_threads = 256, f32_outputs = 64, f32_inputs = 32, f32_stride = f32_inputs + 4;
/// Rows that a thread has, of each 16 of a block.
[[nodiscard]] constexpr int64_t f32_rows(int64_t rows) {
    return rows <= 16 ? 1 : 4;
}
/// Numbers of a stage in shared memory.
[[nodiscard]] constexpr int64_t f32_stage_floats(int64_t matrices, int64_t of_thread) {
    return (matrices * f32_outputs + 16 * of_thread) * f32_stride;
}
/// \param matrices  1, or 2: gate and up
[[nodiscard]] constexpr LaunchShape product_f32(int64_t rows, int64_t outputs, int64_t matrices) {
    const int64_t of_thread = f32_rows(rows);
    return shape_of(blocks_for(rows, 16 * of_thread), blocks_for(outputs, f32_outputs), 1, f32_threads,
                    2 * f32_stage_floats(matrices, of_thread) * 4);
}

// --- attention -------------------------------------------------------------------------------------------------------------------
/// Columns are split at multiples of this, whatever rows are in the pass, and the splits' results merged in ascending order.
inline constexpr int64_t attention_split = 256;
/// Rows that the scratch of attention holds at a time, where they see the whole cache; where they see less of it, more.
inline constexpr int64_t attention_rows = 64;
inline constexpr int64_t attention_columns = 32; ///< brought to shared memory at a time
inline constexpr int64_t attention_warps_f32 = 4, merge_warps = 4;
[[nodiscard]] constexpr int64_t attention_splits(int64_t columns) {
    return blocks_for(columns, attention_split);
}
/// Numbers of that scratch for passes of up to `rows` rows over a cache of `capacity` columns.
[[nodiscard]] constexpr int64_t attention_parts(int64_t rows, int64_t heads, int64_t head_dim,
                                                int64_t capacity) {
    return std::min(rows, attention_rows) * heads * attention_splits(capacity) * (head_dim + 4);
}

/// Columns that are seen: [begin, end).
struct Sight {
    int64_t begin = 0, end = 0;
};
/// \param window  0: all up to the own one
[[nodiscard]] RL_HOST_DEVICE constexpr Sight sight(int64_t position, int64_t window) {
    return {window > 0 && position >= window ? position - window + 1 : 0, position + 1};
}

/// Splits that rows [first, first + rows) see any column of.
struct AttentionSplits {
    int64_t first = 0, count = 0;
};
[[nodiscard]] constexpr AttentionSplits attention_splits_of(int64_t first, int64_t rows, int64_t window) {
    const int64_t begin = sight(first, window).begin / attention_split;
    return {begin, (first + rows - 1) / attention_split - begin + 1};
}
/// Rows of one launch, of a pass of `rows` in all: as many as the scratch holds, or all where nothing has to be merged.
[[nodiscard]] constexpr int64_t attention_rows_at_once(int64_t first, int64_t rows, int64_t window,
                                                       int64_t capacity) {
    const int64_t splits = attention_splits_of(first, rows, window).count;
    return splits == 1 ? rows : attention_rows * attention_splits(capacity) / splits;
}

/// A block's share: queries are all heads of a KV head, of as many rows as fit, at least one.
struct AttentionForm {
    int64_t warps = 0, warp_queries = 0;
    int64_t channel_tiles = 0; ///< of 8 channels, that sums are made for; 0: by fp32 units
    int64_t stages = 1;        ///< blocks of keys and values in shared memory
    int64_t quads = 0;         ///< by fp32 units, and in the merging kernel: runs of 128 channels
    int64_t tile_rows = 1;
    [[nodiscard]] constexpr int64_t queries() const { return warps * warp_queries; }
};
[[nodiscard]] constexpr int64_t attention_quads(int64_t head_dim) {
    return head_dim <= 128 ? 1 : 2;
}
[[nodiscard]] constexpr AttentionForm attention_form(WeightType type, int64_t group, int64_t head_dim) {
    AttentionForm form;
    form.quads = attention_quads(head_dim);
    if (type == WeightType::f32) {
        form.warps = attention_warps_f32;
        form.warp_queries = form.quads == 1 ? 8 : 4;
    } else {
        form.warps = head_dim <= 128 ? 6 : 2;
        form.warp_queries = 16;
        form.channel_tiles = head_dim <= 64 ? 8 : head_dim <= 128 ? 16 : 32;
        form.stages = head_dim <= 64 ? 3 : 2;
    }
    form.tile_rows = std::max<int64_t>(form.queries() / group, 1);
    return form;
}
[[nodiscard]] constexpr int64_t attention_column_bytes(WeightType type, int64_t head_dim) {
    return head_dim * bytes_of(type) + 16;
}
[[nodiscard]] constexpr LaunchShape attention(WeightType type, const AttentionForm& form, int64_t kv_heads,
                                              int64_t head_dim, int64_t rows, int64_t splits) {
    const int64_t column = attention_column_bytes(type, head_dim);
    // Queries in their two parts and the stages; by fp32 units queries, their weights, and keys and values of a block of columns.
    const int64_t shared =
        type == WeightType::f32
            ? form.queries() * (head_dim + 4 + attention_columns) * 4 + 2 * attention_columns * column
            : 2 * (form.queries() + form.stages * attention_columns) * column;
    return shape_of(blocks_for(rows, form.tile_rows), kv_heads, splits, 32 * form.warps, shared);
}
[[nodiscard]] constexpr LaunchShape attention_merge(int64_t heads, int64_t rows) {
    return shape_of(blocks_for(heads, merge_warps), rows, 1, 32 * merge_warps);
}

// --- a refresh's splice ------------------------------------------------------------------------------------------------------------
inline constexpr int64_t splice_threads = 128;
/// Columns of a block.
[[nodiscard]] constexpr int64_t splice_columns(WeightType type, int64_t head_dim) {
    return splice_threads / (head_dim * bytes_of(type) / 16);
}
[[nodiscard]] constexpr LaunchShape splice(WeightType type, int64_t layers, int64_t head_dim, int64_t n) {
    return shape_of(blocks_for(n, splice_columns(type, head_dim)), layers, 2, splice_threads);
}

/// Most KV heads, of all layers, of a launch that splices some.
inline constexpr int64_t most_spliced_heads = 512;
[[nodiscard]] constexpr LaunchShape splice_some(WeightType type, int64_t heads, int64_t halves,
                                                int64_t head_dim, int64_t n) {
    return shape_of(blocks_for(n, splice_columns(type, head_dim)), heads, halves, splice_threads);
}

} // namespace refreshlab::kernels::rows
