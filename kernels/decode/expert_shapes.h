#pragma once

#include "kernels/decode/launch_shapes.h"

#include <algorithm>
#include <cstdint>

/// How the kernels of routed experts are launched (kernels/cuda/decode/experts.h), as plain numbers.
namespace refreshlab::kernels::decode {

inline constexpr int64_t most_experts = 512; ///< of a layer

/// What rows of `inputs` numbers take of shared memory: whole strips, of which a warp reads one at a time.
[[nodiscard]] constexpr int64_t expert_strips(MatrixForm form, int64_t inputs) {
    const int64_t strip = form == MatrixForm::numbers ? 256 : form == MatrixForm::q8_0 ? 512 : 1024;
    return (inputs + strip - 1) / strip * strip;
}

/// A block for 16 experts' logits and a row; the last one of a row chooses.
[[nodiscard]] constexpr LaunchShape router(int64_t experts, int64_t hidden, int64_t rows) {
    LaunchShape shape = product(experts, hidden, 1);
    shape.grid[0] = static_cast<uint32_t>(rows);
    return shape;
}

// --- of a step, and of passes in f32: row by row, by fp32 units ---------------------------------------------------------------
/// A block for 16 outputs of a row's expert.
[[nodiscard]] constexpr LaunchShape expert_gate_up(MatrixForm form, int64_t used, int64_t width,
                                                   int64_t hidden, int64_t rows) {
    LaunchShape shape = product(width, expert_strips(form, hidden), 1);
    shape.grid[0] = static_cast<uint32_t>(rows * used);
    return shape;
}
/// Inputs of a row's experts in shared memory: `stride` for each, `at_once` experts side by side; or one, in several turns.
struct ExpertTile {
    int64_t stride, at_once;
};
[[nodiscard]] constexpr ExpertTile expert_tile(MatrixForm form, int64_t used, int64_t width) {
    const int64_t most = product_tile(1), stride = std::min(expert_strips(form, width), most);
    return {stride, std::min(used, most / stride)};
}
/// A block for 16 outputs of a row, of all its experts.
[[nodiscard]] constexpr LaunchShape expert_down(MatrixForm form, int64_t used, int64_t width, int64_t hidden,
                                                int64_t rows) {
    const ExpertTile tile = expert_tile(form, used, width);
    LaunchShape shape = product(hidden, tile.stride * tile.at_once, 1);
    shape.grid[0] = static_cast<uint32_t>(rows);
    return shape;
}

// --- of passes of many rows, by tensor cores ------------------------------------------------------------------------------------
inline constexpr int64_t expert_rows_warps = 8;
inline constexpr int64_t expert_row_tiles =
    2; ///< of 16 rows, that a warp multiplies at once where so many are sent to its expert
/// Outputs of a block: a warp makes 8 of gate and the same of up, or 16 of down.
inline constexpr int64_t expert_gate_up_outputs = 8 * expert_rows_warps,
                         expert_down_outputs = 16 * expert_rows_warps;
[[nodiscard]] constexpr LaunchShape expert_rows(int64_t experts, int64_t outputs, int64_t per_block) {
    return {{static_cast<uint32_t>(experts), static_cast<uint32_t>((outputs + per_block - 1) / per_block), 1},
            {static_cast<uint32_t>(32 * expert_rows_warps), 1, 1},
            0};
}

} // namespace refreshlab::kernels::decode
