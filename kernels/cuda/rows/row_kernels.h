#pragma once

#include "kernels/cuda/build.h"
#include "kernels/cuda/decode/heads.h"
#include "kernels/decode/rows_shapes.h"
#include "kernels/shared/activation.h"

#include <cstdint>
#include <span>

/// The kernels of a pass of many rows on the device: a refresh reads the tokens of delta, a verification reads drafts, a prefill reads a
/// prompt in chunks. From 2 to 512 rows at positions first, first + 1, ...; the same model, cache and numbers as a decode step
/// (kernels/cuda/decode/decode_kernels.h), with products by tensor cores. Pointers are the device's. Nothing here waits, allocates or
/// copies; every CUDA error is thrown as DeviceFailure.
///
/// numbers  the residual, q | k | v and logits are fp32, and so are sums. What a product multiplies (the results of norms, attention and
///          gated products) stands in memory in the weights' type, rounded by the kernel that made it: bf16 or f16 for tensor cores, fp32 for
///          fp32 units, unrounded.
/// norms    multiply by the sum of `norm_offset` and their weights; where `norm` is null, there is none
/// blocks   matrices may stand in blocks (kernels/blocks/device_blocks.h), beside which the type is bf16 (asserted). They are rounded to
///          it in front of the tensor cores, as their activations are.
/// memory   all arrays 16 bytes aligned; so hidden, inputs and head_dim are multiples of 8, of 4 in f32 (asserted), head_dim of attention and
///          of its cache of 16
/// rows     row r has the same bits whatever other rows are in the pass: a sum never crosses rows, and its order is fixed.
/// parts    a product with many inputs and few outputs may leave its sums in parts, which the kernel behind it merges (parts.cuh).
namespace refreshlab::kernels::RL_GPU {

/// Sums of a product before they are whole: [count, rows, outputs], without bias. count 1: they are whole, and stand where they belong.
struct ProductParts {
    int64_t count = 1;
    float* sums = nullptr; ///< null where count is 1
};

/// out[r, o] = sum_i in[r, i] * matrix[o, i] (+ bias[o]), and what is done with it:
///   store     cap(...) to out
///   onto      added to out (the residual); of both, with more parts than one, neither bias nor out is touched
///   gated     of two matrices: out[r, o] = activation(gate) * up
/// Up to two more matrices of the same inputs may stand below the first, as k and v below q: their outputs follow its own.
struct RowsProductInputs {
    WeightType type{};
    enum class Then : uint8_t { store, onto, gated } then = Then::store;
    const void* in = nullptr; ///< [rows, inputs], of the type
    const void* matrix = nullptr;
    const void* bias = nullptr; ///< [outputs, inputs]; [outputs] or null
    const void* up = nullptr;
    const void* up_bias = nullptr; ///< gated: the second matrix
    int64_t rows = 0, inputs = 0, outputs = 0;
    void* out = nullptr;    ///< fp32; of the type where gated
    int64_t out_stride = 0; ///< numbers from row to row of out
    bool dependent = false;
    struct Below {
        const void *matrix = nullptr, *bias = nullptr;
        int64_t outputs = 0;
    };
    Below below[2] = {};                   ///< outputs 0: none; not where gated (asserted)
    MatrixForm form = MatrixForm::numbers; ///< of all matrices
    ProductParts parts{}; ///< rows::product_parts(), or 1; in f32 and where gated 1 (asserted)
    Activation activation = Activation::silu;
    double cap = 0;
};
RL_LAUNCHER void launch_rows_product(const RowsProductInputs& in, void* stream);

/// out[r] = rmsnorm(x[r]) * norm, the mean divided by `width`. A product onto x that was left in `parts.sums` is added to x first, or with
/// `onto_norm` its norm: then it may be one part, whose bias has been added.
struct RowsNormInputs {
    WeightType type{};
    float* x = nullptr; ///< [rows, hidden]; written where there are parts
    const void* norm = nullptr;
    double eps = 0;
    int64_t rows = 0, hidden = 0, width = 0;
    void* out = nullptr; ///< [rows, hidden], of the type
    bool dependent = false;
    ProductParts parts{};                                   ///< [count, rows, hidden]
    const void *parts_bias = nullptr, *onto_norm = nullptr; ///< of that product
    double norm_offset = 0;
};
RL_LAUNCHER void launch_rows_norm(const RowsNormInputs& in, void* stream);

/// x[r] = scale * embedding[tokens[r]].
struct RowsEmbedInputs {
    WeightType type{};
    const void* embedding = nullptr;
    const int32_t* tokens = nullptr; ///< [rows]
    int64_t rows = 0, hidden = 0;
    float* x = nullptr;
    bool dependent = false;
    MatrixForm form = MatrixForm::numbers;
    float scale = 1;
};
RL_LAUNCHER void launch_rows_embed(const RowsEmbedInputs& in, void* stream);

/// q/k norm over each head (null: none), RoPE at the rows' positions, k and v rounded to the cache's type into columns
/// [first, first + rows); q is left in place, rotated. heads 0: k and v alone. Where q | k | v was left in parts, qkv gets q alone.
struct RowsAppendInputs : HeadsInputs {
    float* qkv = nullptr;                        ///< [rows, heads + 2 kv_heads, head_dim]
    void *k_cache = nullptr, *v_cache = nullptr; ///< [kv_heads, capacity, head_dim] of this layer
    int64_t heads = 0, capacity = 0;
    int64_t rows = 0, first = 0;
    bool dependent = false;
    const int64_t* position = nullptr; ///< of the device, in the place of `first`: a step's
    ProductParts parts{};              ///< as qkv
    const void *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr; ///< of the parts, or null
};
RL_LAUNCHER void launch_rows_append(const RowsAppendInputs& in, void* stream);

/// Attention of all rows over the cache, which holds their columns already: row r sees the columns (first + r - window, first + r],
/// window 0: [0, first + r]. Limits: head_dim a multiple of 16 up to 256, up to 16 query heads to a KV head (asserted).
struct RowsAttentionInputs {
    WeightType type{};
    const float* qkv = nullptr; ///< q of launch_rows_append
    const void *k_cache = nullptr, *v_cache = nullptr;
    int64_t heads = 0, kv_heads = 0, head_dim = 0, capacity = 0;
    int64_t rows = 0, first = 0, window = 0;
    float* parts =
        nullptr; ///< rows::attention_parts(); may be null where first + rows <= rows::attention_split
    void* attended = nullptr; ///< [rows, heads, head_dim], of the type
    bool dependent = false;
    double query_scale = 1, cap = 0; ///< scores are cap(query_scale q k / sqrt(head_dim))
};
RL_LAUNCHER void launch_rows_attention(const RowsAttentionInputs& in, void* stream);

/// A refresh's splice: columns of all layers and heads, K and V, from the teacher's cache into the student's: n from `teacher_first` on
/// become those from `first` on. What stood there goes to `journal` first, [2, layers, kv_heads, n, head_dim] (K, then V), which may be pinned memory of the
/// host; and `drift` gets, for each layer and position, what kernels::column_distance() needs of K and V apart, [layers, n, 6]: |k - k'|^2,
/// |k'|^2, max |k - k'| (NaN once one is), then the same of v; sums in a fixed order. head_dim a multiple of 8, of 4 in f32. One launch.
struct SpliceInputs {
    WeightType type{};
    void *k = nullptr, *v = nullptr; ///< the student's, [layers, kv_heads, capacity, head_dim]
    const void *teacher_k = nullptr, *teacher_v = nullptr;
    int64_t layers = 0, kv_heads = 0, head_dim = 0, capacity = 0, teacher_capacity = 0;
    int64_t first = 0, teacher_first = 0, n = 0;
    bool copies = true;      ///< false: the student's columns stay, and are told about alone
    void* journal = nullptr; ///< null: not wanted
    float* drift = nullptr;  ///< null: not wanted
};
RL_LAUNCHER void launch_splice(const SpliceInputs& in, void* stream);

/// Some entries of a splice: of KV heads and columns that are listed, keys, values or both. What stood there goes to `saved_k` and `saved_v` first,
/// [heads, columns, head_dim], which may be pinned memory of the host. head_dim as in SpliceInputs. One launch.
struct SpliceSomeInputs {
    WeightType type{};
    void *k = nullptr, *v = nullptr; ///< the student's, as in SpliceInputs; null: that half stays
    const void *teacher_k = nullptr, *teacher_v = nullptr; ///< the same, or packed
    bool packed =
        false; ///< the teacher's entries stand at [heads, teacher_capacity, head_dim], column j of the list at j
    int64_t head_dim = 0, capacity = 0, teacher_capacity = 0;
    int64_t first = 0, teacher_first = 0;
    std::span<const uint16_t> heads; ///< layer * kv_heads + head, ascending; at most rows::most_spliced_heads
    std::span<const int32_t> columns;            ///< from `first` on, ascending; at most most_spliced_columns
    void *saved_k = nullptr, *saved_v = nullptr; ///< null: not wanted
};
RL_LAUNCHER void launch_splice_some(const SpliceSomeInputs& in, void* stream);

} // namespace refreshlab::kernels::RL_GPU
