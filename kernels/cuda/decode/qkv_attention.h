#pragma once

#include "kernels/cuda/decode/decode_kernels.h"

namespace refreshlab::kernels::RL_GPU {

/// q | k | v of a layer and its attention in one launch, of the token's row alone: launch_norm_product and launch_decode_attention one after
/// the other, with their bits. A cluster of blocks for each KV head (decode::qkv_attention).
struct QkvAttentionInputs {
    NormProductInputs qkv; ///< matrices of numbers; `out` is not used; rows 1 (asserted)
    DecodeAttentionInputs
        attention; ///< `qkv`, `parts`, `arrived` and `entropy_parts` are not used; rows 1 (asserted)
};
/// Whether there is such a launch for these inputs, on this device: it has clusters of so many blocks, and it is worth it
/// (decode::joins_attention).
[[nodiscard]] RL_LAUNCHER bool runs_qkv_attention(const QkvAttentionInputs& in);
RL_LAUNCHER void launch_qkv_attention(const QkvAttentionInputs& in, void* stream);
// Of caches that are read through lists.
[[nodiscard]] bool runs_qkv_list_attention(const QkvAttentionInputs& in);
void launch_qkv_list_attention(const QkvAttentionInputs& in, void* stream);

} // namespace refreshlab::kernels::RL_GPU
