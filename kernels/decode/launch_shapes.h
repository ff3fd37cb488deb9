#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

/// How a decode step's kernels are launched, as plain numbers: the launchers (kernels/cuda/decode) and the plan that is read without
/// a GPU take them from here, so that both speak of the same launches.
namespace refreshlab::kernels {

/// Stored form of weights and of cache entries.
enum class WeightType : uint8_t { f32, bf16, f16 };
[[nodiscard]] constexpr int64_t bytes_of(WeightType type) {
    return type == WeightType::f32 ? 4 : 2;
}

struct LaunchShape {
    std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1};
    uint32_t shared_bytes = 0; ///< dynamic
};

namespace decode {

/// Rows that one launch takes through a product: the token's row and MC rows. A pass of more rows has more layers of blocks (grid y),
/// which read the weights again. A row has the same bits whatever other rows there are.
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

/// Rows of inputs stand in shared memory as fp32.
[[nodiscard]] constexpr LaunchShape product(int64_t outputs, int64_t inputs, int64_t rows,
                                            int64_t per_block = outputs_per_block) {
    const int64_t held = std::min(rows, rows_per_block);
    return {{static_cast<uint32_t>((outputs + per_block - 1) / per_block),
             static_cast<uint32_t>(row_groups(rows)), 1},
            {static_cast<uint32_t>(32 * product_warps), 1, 1},
            static_cast<uint32_t>(held * inputs * 4)};
}

// --- attention -------------------------------------------------------------------------------------------------------------
/// Positions of one split: fixed, so that the bits do not depend on the length (reference/performance.md, fact 6).
inline constexpr int64_t split_positions = 256;
inline constexpr int64_t attention_warps = 4;
[[nodiscard]] constexpr int64_t splits(int64_t positions) {
    return (positions + split_positions - 1) / split_positions;
}
/// A block for each split, KV head and row; the grid holds `capacity` positions, and blocks behind the length end at once.
/// \param group  query heads of one KV head
[[nodiscard]] constexpr LaunchShape attention(int64_t kv_heads, int64_t group, int64_t head_dim, int64_t rows,
                                              int64_t capacity) {
    // Queries [group, head_dim], the own key and value [2, head_dim], scores [group, split_positions], and what the warps add up
    // [warps, group, head_dim].
    const int64_t floats =
        group * head_dim + 2 * head_dim + group * split_positions + attention_warps * group * head_dim;
    return {{static_cast<uint32_t>(splits(capacity)), static_cast<uint32_t>(kv_heads),
             static_cast<uint32_t>(rows)},
            {static_cast<uint32_t>(32 * attention_warps), 1, 1},
            static_cast<uint32_t>(floats * 4)};
}

} // namespace decode
} // namespace refreshlab::kernels
