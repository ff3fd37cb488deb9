#pragma once

#include "kernels/decode/decode_plan.h"
#include "kernels/decode/device_decoder.h"
#include "kernels/decode/rows_shapes.h"

#include <cstdint>
#include <vector>

/// The launches of a refresh, worked out from a model's shape as those of a step are (decode_plan.h): the pass of many rows that the
/// teacher makes over delta (kernels/cuda/rows/rows_pass.cpp launches them), and the splice that follows. Plain numbers.
namespace refreshlab::kernels::decode {

/// A pass of many rows.
struct PassShape {
    using Logits =
        DevicePass::Rows; ///< of which rows; none ends with the last layer's K and V, without its q
    int64_t rows = 1;
    int64_t first = 0; ///< columns that the cache holds; the pass writes [first, first + rows)
    Logits logits = Logits::none;
};

/// Embedding; for each layer norm, q|k|v, append, attention and its merging where it has several splits, o, norm, gate|up, down; norm and
/// head where logits are wanted.
/// \param model  `rows`, `context` and `top_k` are a step's and have no part in it
/// As plan_step(), and rows >= 1, first + rows <= capacity, head_dim a multiple of 16 (asserted).
[[nodiscard]] std::vector<PlannedLaunch> plan_pass(const DecodeShape& model, const PassShape& pass);

/// The drift of n columns of all layers between the teacher's cache and that of `model`, then their splice: a launch for each
/// most_spliced_columns, which also puts what stood there aside in memory of the device. From there it goes to the journal on a stream of
/// its own, which no launch waits for and which is not planned.
[[nodiscard]] std::vector<PlannedLaunch> plan_splice(const DecodeShape& model, int64_t n);

} // namespace refreshlab::kernels::decode
