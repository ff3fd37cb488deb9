#pragma once

#include "kernels/blocks/block_types.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

/// How a decode step's kernels are launched, as plain numbers: the launchers (kernels/cuda/decode) and the plan that is read without
/// a GPU take them from here, so that both speak of the same launches.
namespace refreshlab::kernels {

/// Stored form of weights and of cache entries.
enum class WeightType : uint8_t { f32, bf16, f16 };
[[nodiscard]] constexpr int64_t bytes_of(WeightType type) {
    return type == WeightType::f32 ? 4 : 2;
}

/// How a matrix stands in a device's memory: row-major numbers of the model's WeightType, or blocks of 32 inputs
/// (kernels/blocks/device_blocks.h), beside which all else is bf16.
enum class MatrixForm : uint8_t { numbers, q8_0, q4_0, q4_1 };
[[nodiscard]] constexpr MatrixForm form_of(BlockType type) {
    return type == BlockType::q8_0   ? MatrixForm::q8_0
           : type == BlockType::q4_0 ? MatrixForm::q4_0
                                     : MatrixForm::q4_1;
}
/// Of a tile: the blocks of 16 outputs. \param form  not numbers
[[nodiscard]] constexpr int64_t tile_bytes(MatrixForm form) {
    return block_rows * stored_block_bytes(form == MatrixForm::q8_0   ? BlockType::q8_0
                                           : form == MatrixForm::q4_0 ? BlockType::q4_0
                                                                      : BlockType::q4_1);
}
[[nodiscard]] constexpr int64_t matrix_bytes(WeightType type, MatrixForm form, int64_t outputs,
                                             int64_t inputs) {
    return form == MatrixForm::numbers ? outputs * inputs * bytes_of(type)
                                       : outputs / block_rows * (inputs / block_width) * tile_bytes(form);
}

struct LaunchShape {
    std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1};
    uint32_t shared_bytes = 0; ///< dynamic
    uint32_t cluster = 1;      ///< blocks of a cluster, beside each other along the first axis (sm_90)
};

namespace decode {

/// Rows that one block takes through a product: the token's row and MC rows. More rows have more blocks, which read the weights again,
/// from the second cache for the most part. A row has the same bits whatever other rows there are.
inline constexpr int64_t rows_per_block = 8;
[[nodiscard]] constexpr int64_t row_groups(int64_t rows) {
    return (rows + rows_per_block - 1) / rows_per_block;
}

// --- products of a few rows with a matrix --------------------------------------------------------------------------------
inline constexpr int64_t product_warps = 8; ///< of a block
inline constexpr int64_t outputs_per_warp =
    2; ///< two rows of the matrix at a time: twice the reads under way
inline constexpr int64_t outputs_per_block = product_warps * outputs_per_warp;
inline constexpr int64_t head_outputs_per_warp = 8; ///< of the head, whose blocks also sum what they made
inline constexpr int64_t head_outputs_per_block = product_warps * head_outputs_per_warp;

/// Kernels are made for 1, 2, 4 and 8 rows in a block.
[[nodiscard]] constexpr int64_t rows_held(int64_t rows) {
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::min(rows, rows_per_block))));
}
/// Inputs of a row that stand in shared memory at a time, for blocks that hold so many rows. Longer rows come in turns.
[[nodiscard]] constexpr int64_t product_tile(int64_t held) {
    return 16384 /
           held; // 64 KB, which every GPU has; a multiple of 1,024 (kernels/cuda/decode/row_products.cuh)
}
/// The grid is [row groups, blocks of outputs]: blocks that read the same weights run side by side.
[[nodiscard]] constexpr LaunchShape product(int64_t outputs, int64_t inputs, int64_t rows,
                                            int64_t per_block = outputs_per_block) {
    const int64_t held = rows_held(rows);
    const int64_t whole_vectors = (inputs + 255) / 256 * 256; // 16 bytes of 16-bit weights for each lane
    return {{static_cast<uint32_t>(row_groups(rows)),
             static_cast<uint32_t>((outputs + per_block - 1) / per_block), 1},
            {static_cast<uint32_t>(32 * product_warps), 1, 1},
            static_cast<uint32_t>(held * std::min(whole_vectors, product_tile(held)) * 4)};
}

// --- products with matrices in blocks ------------------------------------------------------------------------------------
/// Inputs that the warps of a block take side by side: each half of a warp 16 bytes of every output of a tile.
[[nodiscard]] constexpr int64_t side_inputs(MatrixForm form) {
    return 2 * product_warps * (form == MatrixForm::q8_0 ? 16 : 32);
}
/// A block makes the 16 outputs of a tile, one after the other of `per_block / 16` of them. \param matrices  2: gate and up at once
[[nodiscard]] constexpr LaunchShape block_product(MatrixForm form, int64_t outputs, int64_t inputs,
                                                  int64_t rows, int64_t per_block = outputs_per_block,
                                                  int64_t matrices = 1) {
    const int64_t held = rows_held(rows), side = side_inputs(form);
    const int64_t exchanged = product_warps * matrices * block_rows * held; // the warps' sums
    return {{static_cast<uint32_t>(row_groups(rows)),
             static_cast<uint32_t>((outputs + per_block - 1) / per_block), 1},
            {static_cast<uint32_t>(32 * product_warps), 1, 1},
            static_cast<uint32_t>(
                (held * std::min((inputs + side - 1) / side * side, product_tile(held)) + exchanged) * 4)};
}

// --- the same products with MC rows beside the token's ---------------------------------------------------------------------
inline constexpr int64_t mc_product_warps = 16; ///< of a block, in two halves that have outputs of their own
/// Outputs of a block. Every block brings all rows of activations, so fewer blocks than with one row; o and down have few outputs.
inline constexpr int64_t mc_outputs_per_block = 64, mc_onto_outputs_per_block = 32,
                         mc_gate_up_per_block = 32; ///< of gate, and as many of up

/// Rows that a block takes through a product: the token's and 8, 16 or 24 MC rows; in f32, which no tensor core multiplies, 8.
[[nodiscard]] constexpr int64_t mc_rows_held(WeightType type, int64_t rows) {
    return rows <= 9 || type == WeightType::f32 ? 9 : rows <= 17 ? 17 : 25;
}
/// Blocks side by side that share out the MC rows; each reads the matrix.
[[nodiscard]] constexpr int64_t mc_row_groups(WeightType type, int64_t rows) {
    const int64_t of_block = mc_rows_held(type, rows) - 1;
    return (rows - 1 + of_block - 1) / of_block;
}
/// Inputs of all rows that stand in shared memory at a time: of 96 KB (a block of sm_86, 89 and 120 has 99) what is a multiple of 256.
[[nodiscard]] constexpr int64_t mc_product_tile(int64_t held) {
    return 98304 / (held * 4) / 256 * 256;
}
/// \param outputs    of all matrices: gate and up have twice as many as gate
/// \param rows       2 or more
/// \param per_block  of the outputs
[[nodiscard]] constexpr LaunchShape mc_product(WeightType type, int64_t outputs, int64_t inputs, int64_t rows,
                                               int64_t per_block) {
    const int64_t held = mc_rows_held(type, rows), whole = (inputs + 255) / 256 * 256;
    const int64_t tile = held * std::min(whole, mc_product_tile(held)) * 4;
    const int64_t exchange = per_block * 256; // sums change hands where the tile stood
    return {{static_cast<uint32_t>(mc_row_groups(type, rows)),
             static_cast<uint32_t>((outputs + per_block - 1) / per_block), 1},
            {static_cast<uint32_t>(32 * mc_product_warps), 1, 1},
            static_cast<uint32_t>(std::max(tile, exchange))};
}

// --- norms over whole rows: of q and k over all heads, of what attention and the MLP add ---------------------------------------
inline constexpr int64_t norm_rows_threads = 512;
/// A block for each run of numbers and row.
[[nodiscard]] constexpr LaunchShape norm_rows(int64_t runs, int64_t rows) {
    return {{static_cast<uint32_t>(runs), static_cast<uint32_t>(rows), 1},
            {static_cast<uint32_t>(norm_rows_threads), 1, 1},
            0};
}

// --- attention -------------------------------------------------------------------------------------------------------------
/// Positions of one split: fixed, so that the bits do not depend on the length (development/performance.md, fact 6).
inline constexpr int64_t split_positions = 256;
inline constexpr int64_t attention_warps = 8;
inline constexpr int64_t most_group = 16;     ///< query heads of one KV head
inline constexpr int64_t most_head_dim = 256; ///< a multiple of 8
[[nodiscard]] constexpr int64_t splits(int64_t positions) {
    return (positions + split_positions - 1) / split_positions;
}
/// Sums of values that stand side by side in shared memory, each of two warps.
[[nodiscard]] constexpr int64_t attention_sums(int64_t group) {
    return group > 8 ? 2 : 4;
}
/// Splits whose sums and values a thread of the block that merges them asks for side by side.
inline constexpr int64_t merge_at_once = 8;
/// Teams of that block's threads which share out the splits; a thread of a team has four channels of a query head. What they hand over has room
/// where scores and sums of values stood.
[[nodiscard]] constexpr int64_t merge_teams(int64_t group, int64_t head_dim) {
    return std::clamp<int64_t>(32 * attention_warps * 4 / (group * head_dim), 1, 3);
}
/// Times that it reads splits and waits for them.
[[nodiscard]] constexpr int64_t merge_rounds(int64_t group, int64_t head_dim, int64_t splits) {
    const int64_t threads = 32 * attention_warps, places = group * head_dim / 4;
    const int64_t at_once = merge_teams(group, head_dim) * merge_at_once;
    return (places + threads - 1) / threads * ((splits + at_once - 1) / at_once);
}
/// A block for each split, KV head and row; the grid holds `capacity` positions, and blocks behind the length end at once.
/// \param group  query heads of one KV head
[[nodiscard]] constexpr LaunchShape attention(int64_t kv_heads, int64_t group, int64_t head_dim, int64_t rows,
                                              int64_t capacity) {
    // Queries [group, head_dim], the own key and value [2, head_dim], scores [group, split_positions], and what the warps add up
    // [attention_sums, group, head_dim]: 67,584 bytes at most.
    const int64_t floats =
        group * head_dim + 2 * head_dim + group * split_positions + attention_sums(group) * group * head_dim;
    return {{static_cast<uint32_t>(splits(capacity)), static_cast<uint32_t>(kv_heads),
             static_cast<uint32_t>(rows)},
            {static_cast<uint32_t>(32 * attention_warps), 1, 1},
            static_cast<uint32_t>(floats * 4)};
}

// --- q | k | v and attention in one launch, by clusters of blocks (sm_90) ---------------------------------------------------
/// Blocks of all clusters together at most: about as many as a large GPU has multiprocessors.
inline constexpr int64_t joined_blocks = 128;
inline constexpr int64_t most_cluster = 16; ///< blocks
/// Dynamic shared memory of a block at most: what every GPU with clusters has, and two blocks of an sm_90 side by side.
inline constexpr int64_t joined_shared_bytes = 96 * 1024;
/// Blocks of the cluster that a KV head has: a power of two, each with 16 outputs of q | k | v at least.
[[nodiscard]] constexpr int64_t joined_cluster(int64_t kv_heads, int64_t group, int64_t head_dim) {
    const int64_t blocks = std::min(joined_blocks / kv_heads, (group + 2) * head_dim / outputs_per_block);
    return blocks < 1
               ? 1
               : std::min(static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(blocks))), most_cluster);
}
/// Where things stand in a block's dynamic shared memory: numbers of fp32 from its beginning, all multiples of 4.
struct JoinedShared {
    int64_t qkv = 0;    ///< [group + 2, head_dim]: of the KV head, from all blocks
    int64_t turns = 0;  ///< [2, head_dim / 2]: cosines and sines of the position
    int64_t values = 0; ///< [splits, places of a block, 4]: sums of values, from all blocks
    int64_t sums = 0;   ///< [splits, group, 3]: maxima and sums, from all blocks
    int64_t own = 0;    ///< inputs of the product; afterwards what attention() has
    int64_t numbers = 0;
};
/// Places of four channels of a query head that a block merges.
[[nodiscard]] constexpr int64_t joined_places(int64_t cluster, int64_t group, int64_t head_dim) {
    return (group * head_dim / 4 + cluster - 1) / cluster;
}
[[nodiscard]] constexpr JoinedShared joined_shared(int64_t kv_heads, int64_t group, int64_t head_dim,
                                                   int64_t hidden, int64_t capacity) {
    const int64_t cluster = joined_cluster(kv_heads, group, head_dim), parts = splits(capacity);
    const auto fours = [](int64_t n) { return (n + 3) / 4 * 4; };
    JoinedShared at;
    at.turns = at.qkv + (group + 2) * head_dim;
    at.values = at.turns + fours(head_dim);
    at.sums = at.values + parts * joined_places(cluster, group, head_dim) * 4;
    at.own = at.sums + fours(parts * group * 3);
    at.numbers = at.own + std::max(product(outputs_per_block, hidden, 1).shared_bytes,
                                   attention(1, group, head_dim, 1, 1).shared_bytes) /
                              4;
    return at;
}
/// A cluster for each KV head.
[[nodiscard]] constexpr LaunchShape qkv_attention(int64_t kv_heads, int64_t group, int64_t head_dim,
                                                  int64_t hidden, int64_t capacity) {
    const auto cluster = static_cast<uint32_t>(joined_cluster(kv_heads, group, head_dim));
    return {{cluster, static_cast<uint32_t>(kv_heads), 1},
            {static_cast<uint32_t>(32 * attention_warps), 1, 1},
            static_cast<uint32_t>(joined_shared(kv_heads, group, head_dim, hidden, capacity).numbers * 4),
            cluster};
}
/// Whether it is possible: what splits leave has room.
[[nodiscard]] constexpr bool can_join_attention(int64_t kv_heads, int64_t group, int64_t head_dim,
                                                int64_t hidden, int64_t capacity) {
    return qkv_attention(kv_heads, group, head_dim, hidden, capacity).shared_bytes <= joined_shared_bytes;
}
/// And worth it: there are blocks for half of a large GPU, or each has so few weights and splits that a launch would cost more.
[[nodiscard]] constexpr bool joins_attention(WeightType type, int64_t kv_heads, int64_t group,
                                             int64_t head_dim, int64_t hidden, int64_t capacity) {
    const int64_t cluster = joined_cluster(kv_heads, group, head_dim), blocks = kv_heads * cluster;
    const int64_t weights = kv_heads * (group + 2) * head_dim * hidden * bytes_of(type) / blocks;
    return can_join_attention(kv_heads, group, head_dim, hidden, capacity) &&
           (blocks >= joined_blocks / 2 || (weights <= 64 * 1024 && splits(capacity) <= cluster));
}

// --- attention rows for the host ----------------------------------------------------------------------------------------------
/// A block for each split, head and layer that the host looks at; blocks behind the length end at once.
[[nodiscard]] constexpr LaunchShape attention_rows(int64_t heads, int64_t taps, int64_t capacity) {
    return {
        {static_cast<uint32_t>(splits(capacity)), static_cast<uint32_t>(heads), static_cast<uint32_t>(taps)},
        {static_cast<uint32_t>(split_positions), 1, 1},
        0};
}
inline constexpr int64_t attention_bin_threads = 128;
/// A thread for each bin that a row may have.
[[nodiscard]] constexpr LaunchShape attention_bins(int64_t heads, int64_t taps, int64_t capacity,
                                                   int64_t bins) {
    const int64_t most = std::min(bins, capacity);
    return {{static_cast<uint32_t>((most + attention_bin_threads - 1) / attention_bin_threads),
             static_cast<uint32_t>(heads), static_cast<uint32_t>(taps)},
            {static_cast<uint32_t>(attention_bin_threads), 1, 1},
            0};
}

// --- edits of the lists that attention reads, and rows that leave ---------------------------------------------------------------
inline constexpr int64_t list_threads = 256;
inline constexpr int64_t most_plane_edits = 256; ///< of one KV head of a layer in a step
inline constexpr int64_t leaving_blocks = 32;    ///< whose warps take rows out in turn
/// What the lists of a step may change, all planes together, and rows that may leave: beyond it whole lists are uploaded.
[[nodiscard]] constexpr int64_t most_list_edits(int64_t planes) {
    return 32 * planes;
}
[[nodiscard]] constexpr LaunchShape list_edits(int64_t planes) {
    return {{static_cast<uint32_t>(planes + leaving_blocks), 1, 1},
            {static_cast<uint32_t>(list_threads), 1, 1},
            0};
}

// --- attention of MC rows over a cache of 16-bit entries ----------------------------------------------------------------
/// Tensor cores multiply 16-bit entries; in f32 MC rows go through the token's launch, one by one.
[[nodiscard]] constexpr bool mc_rows_apart(WeightType type) {
    return type != WeightType::f32;
}
inline constexpr int64_t mc_attention_queries =
    32; ///< of a block at most: rows times query heads of a KV head
/// Tiles of 16 queries that a block has, 1 or 2.
[[nodiscard]] constexpr int64_t mc_attention_tiles(int64_t group, int64_t rows) {
    return (rows - 1) * group <= 16 ? 1 : 2;
}
/// MC rows of a block.
[[nodiscard]] constexpr int64_t mc_attention_rows(int64_t group, int64_t rows) {
    return 16 * mc_attention_tiles(group, rows) / group;
}
/// Units of 4 channels of a query in shared memory: whole steps of 32 channels.
[[nodiscard]] constexpr int64_t mc_query_units(int64_t head_dim) {
    return (head_dim + 31) / 32 * 8;
}
inline constexpr int64_t mc_score_stride = split_positions + 16; ///< floats from query to query
/// A block for each split, KV head and as many rows as it holds.
/// \param rows  with the token's, 2 or more
[[nodiscard]] constexpr LaunchShape mc_attention(int64_t kv_heads, int64_t group, int64_t head_dim,
                                                 int64_t rows, int64_t capacity) {
    // Queries, scores, own keys: 84,480 bytes at most.
    const int64_t queries = 16 * mc_attention_tiles(group, rows), of_block = mc_attention_rows(group, rows);
    const int64_t bytes = queries * (mc_query_units(head_dim) * 16 + 16) + queries * mc_score_stride * 4 +
                          of_block * head_dim * 2;
    return {{static_cast<uint32_t>(splits(capacity)), static_cast<uint32_t>(kv_heads),
             static_cast<uint32_t>((rows - 1 + of_block - 1) / of_block)},
            {static_cast<uint32_t>(32 * attention_warps), 1, 1},
            static_cast<uint32_t>(bytes)};
}

// --- the token's row of the embedding -------------------------------------------------------------------------------------
inline constexpr int64_t embed_threads = 256;
/// A block a row.
[[nodiscard]] constexpr LaunchShape embed(int64_t rows) {
    return {{static_cast<uint32_t>(rows), 1, 1}, {static_cast<uint32_t>(embed_threads), 1, 1}, 0};
}

// --- answers about the token's row of logits, which the head's blocks make --------------------------------------------------
inline constexpr int64_t answer_group = 64; ///< neighbouring blocks whose answers are merged first
/// Keys that are found in so many rounds over all lists, which costs about as much as to merge the lists of a group. Twice as many rounds, over
/// twice as many keys, would cost four times that: for more keys lists are merged, by each of so many warps a share.
inline constexpr int64_t answer_rounds = 16, answer_warps = product_warps;
[[nodiscard]] constexpr int64_t answer_blocks(int64_t vocab) {
    return (vocab + head_outputs_per_block - 1) / head_outputs_per_block;
}
[[nodiscard]] constexpr int64_t answer_groups(int64_t vocab) {
    return (answer_blocks(vocab) + answer_group - 1) / answer_group;
}

} // namespace decode
} // namespace refreshlab::kernels
