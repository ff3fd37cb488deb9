#pragma once

#include "kernels/cuda/decode/decode_kernels.h"

namespace refreshlab::kernels::RL_GPU {

/// Attention of the MC rows of a step over the dense cache of a layer, of 16-bit entries (asserted): rows 1 to N as launch_decode_attention
/// has them, to rounding, with the same masks. Keys and values are read once for all query heads of a KV head and as many rows as
/// decode::mc_attention_rows says. Nothing is written into the cache. A row has the same bits whatever N is.
struct McAttentionInputs : HeadsInputs {
    const StepState* state = nullptr;
    const float* qkv =
        nullptr; ///< [rows, heads + 2 kv_heads, head_dim] before norm and RoPE; row 0 is not looked at
    double query_scale = 1, cap = 0;
    const void* k_cache = nullptr;
    const void* v_cache = nullptr; ///< [kv_heads, capacity, head_dim] of this layer
    int64_t heads =
        0; ///< a KV head's share and head_dim: at most decode::most_group, most_head_dim (asserted)
    int64_t capacity = 0;
    int64_t window = 0;          ///< sliding window: a query at p sees (p - window, p]; 0 = all
    BranchDropout dropout{};     ///< element: query head * 2^32 + key position
    float* parts = nullptr;      ///< scratch, (rows - 1) * heads * decode::splits(capacity) * (head_dim + 2)
    uint32_t* arrived = nullptr; ///< scratch, [rows - 1, kv_heads]; all 0 before the launch, and after it
    float* attended = nullptr;   ///< [rows, heads, head_dim]; row 0 is left as it is
    int64_t rows = 2;            ///< the token's and N MC rows, N > 0
    bool dependent = false;
};
RL_LAUNCHER void launch_mc_attention(const McAttentionInputs& in, void* stream);

} // namespace refreshlab::kernels::RL_GPU
