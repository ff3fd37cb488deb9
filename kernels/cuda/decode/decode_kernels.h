#pragma once

#include "kernels/cuda/build.h"
#include "kernels/cuda/decode/heads.h"
#include "kernels/decode/device_decoder.h"
#include "kernels/decode/launch_shapes.h"

#include <cstdint>

/// The kernels of a decode step on the device: five a layer, with one before the layers and the head after them; on GPUs with clusters of
/// blocks two of the five are one where the token's row is alone (qkv_attention.h). Where weights have 16 bits, MC rows have a sixth (mc_attention.h), and norms over whole rows have launches of their own (norm_rows). Pointers are the device's. Nothing here waits, allocates or copies; every CUDA error is
/// thrown as DeviceFailure.
///
/// rows     1 + N: row 0 is the token's, the others are MC rows of the same token (reference/refresh.md, 6.3). Row r has the same
///          bits whatever N is: every sum runs in an order that no other row takes part in.
/// numbers  activations fp32; weights and cache entries as stored, made fp32 as they are read; sums fp32. MC rows of 16-bit weights go by
///          tensor cores, with activations in two parts that keep 16 bits of them and more (mc_products.cuh).
/// blocks   matrices may stand in blocks, those of one launch in one form; beside them the type is bf16 (asserted)
/// memory   matrices, norms, the embedding, caches and rows of activations 16 bytes aligned; so hidden, inputs and head_dim are multiples
///          of 8, of 4 in f32 (asserted)
/// stream   a cudaStream_t
/// dependent  the launch may begin before the one in front of it has ended (launch.cuh): each kernel waits for it before it reads
///            what that one wrote, and reads its weights' first bytes before.
namespace refreshlab::kernels::RL_GPU {

/// What changes from step to step, in device memory, so that a graph of the launches stays as it is.
struct StepState {
    int32_t token = 0;
    int32_t passes = 0;     ///< N of the MC rows; rows of the launches beyond 1 + N do nothing
    int32_t asked = -1;     ///< token whose logit is one of the answers; -1: none
    int64_t position = 0;   ///< of the token; the cache holds [0, position)
    uint64_t seed = 0;      ///< of dropout
    uint64_t sequence = 0;  ///< number of the step: written behind its answers
    double temperature = 0; ///< as DeviceStep has them
    double share = -1;
};

/// Rows 16 bytes aligned (inputs a multiple of 8, of 4 in f32).
using Matrix = DeviceMatrix;

/// Dropout of a branch, or of attention, in rows from 1 on; probability 0: none. What is kept is what kernels::dropout_keeps() says for
/// (seed, position, layer, pass = row) and the site's elements (kernels/ops/dropout.h), scaled by 1 / (1 - probability).
struct BranchDropout {
    float probability = 0;
    uint32_t layer = 0;
    uint32_t site = 0; ///< a kernels::DropoutSite
};

/// x[r] = scale * embedding[state->token], for all rows. Shape: one block a row.
struct EmbedInputs {
    WeightType type{};
    const void* embedding = nullptr; ///< [vocab, hidden]
    const StepState* state = nullptr;
    float* x = nullptr; ///< [rows, hidden]
    int64_t rows = 1, hidden = 0;
    bool dependent = false;
    MatrixForm form = MatrixForm::numbers;
    float scale = 1;
};
RL_LAUNCHER void launch_embed(const EmbedInputs& in, void* stream);

/// What norms multiply by is the sum of `norm_offset` and their weights, in all launches of this file; where `norm` is null, there is none.

/// Rows that a norm is applied to before a product: what the inputs of these launches have in common.
struct NormedInputs {
    WeightType type{};
    const StepState* state = nullptr; ///< null: all rows are there
    const float* x = nullptr;         ///< [rows, hidden]
    const void* norm = nullptr;       ///< [hidden], of the type, or null
    int64_t hidden = 0;               ///< as held
    int64_t width = 0;                ///< true width, by which the mean divides
    double eps = 0, norm_offset = 0;
    int64_t rows = 1;
    bool dependent = false;
};

/// out[r] = (matrices one after the other) * rmsnorm(x[r]) + biases: q | k | v of a layer. decode::product or mc_product of all outputs.
struct NormProductInputs : NormedInputs {
    Matrix matrices[3];   ///< those with outputs > 0
    float* out = nullptr; ///< [rows, sum of outputs]
};
RL_LAUNCHER void launch_norm_product(const NormProductInputs& in, void* stream);

/// inner[r] = activation(gate * h + bias) * (up * h + bias), h = rmsnorm(x[r]). Whoever makes gate makes up of the same output.
struct NormGateUpInputs : NormedInputs {
    Matrix gate, up;
    float* inner = nullptr; ///< [rows, gate.outputs]
    Activation activation = Activation::silu;
};
RL_LAUNCHER void launch_norm_gate_up(const NormGateUpInputs& in, void* stream);

/// x[r] += dropout(matrix * in[r] + bias): o and down. Without `adds` x[r] = matrix * in[r] + bias, and no dropout (asserted).
struct ProductOntoInputs {
    WeightType type{};
    const StepState* state = nullptr;
    const float* in = nullptr; ///< [rows, matrix.inputs]
    Matrix matrix;
    float* x = nullptr; ///< [rows, matrix.outputs]
    BranchDropout dropout;
    int64_t rows = 1;
    bool dependent = false;
    bool adds = true;
};
RL_LAUNCHER void launch_product_onto(const ProductOntoInputs& in, void* stream);

/// out[r] = rmsnorm(in[r]), or with `adds` out[r] += dropout(rmsnorm(in[r])), over whole runs of numbers: of all heads of q, or of k; of what
/// attention or the MLP adds to the residual. out may be in. Shape: one block a run and row.
struct NormRowsInputs {
    WeightType type{};
    const StepState* state = nullptr; ///< null: all rows are there, and none has dropout
    struct Run {
        const float* in = nullptr;
        float* out = nullptr;
        const void* norm = nullptr; ///< [numbers]
        int64_t numbers = 0;        ///< 0: there is no such run
        int64_t width = 0;          ///< by which the mean divides
    } runs[2];
    int64_t in_stride = 0, out_stride = 0; ///< numbers from row to row
    double eps = 0, norm_offset = 0;
    BranchDropout dropout;
    int64_t rows = 1;
    bool adds = false, dependent = false;
};
RL_LAUNCHER void launch_norm_rows(const NormRowsInputs& in, void* stream);
/// Norms of q and k over all their heads, in place. \param qkv  [rows, heads + 2 kv_heads, head_dim], or without q
[[nodiscard]] inline NormRowsInputs qk_norms(const DeviceModel& model, const DeviceModel::Layer& layer,
                                             float* qkv, bool with_q, int64_t rows, const StepState* state) {
    const int64_t q = with_q ? model.heads * model.head_dim : 0, k = model.kv_heads * model.head_dim;
    NormRowsInputs in;
    in.type = model.type;
    in.state = state;
    if (with_q) in.runs[0] = {qkv, qkv, layer.q_norm, q, q};
    in.runs[with_q ? 1 : 0] = {qkv + q, qkv + q, layer.k_norm, k, k};
    in.in_stride = in.out_stride = q + 2 * k;
    in.eps = model.norm_eps;
    in.norm_offset = model.norm_offset;
    in.rows = rows;
    in.dependent = true;
    return in;
}

/// Attention of a layer over its cache, what comes before it and what comes after:
///   q/k norm over each head (null: none), RoPE at `position`, k and v rounded to the cache's type; row 0 writes them at column
///   `position`. Row r attends to the columns [first_visible, position) of the cache and, as the last key, to its own.
///   attended[r] = softmax(cap(query_scale q k / sqrt(head_dim))) v, with dropout after the softmax.
/// With `entries` it goes through lists instead: KV head h attends to its list, whose last entry is the token's own, which row 0 writes.
/// Split over the cache: each split of decode::split_positions entries leaves (max, sum, weighted values); the last block of a KV head
/// and row to end merges the splits in index order, so that the order of arrival changes no bit.
struct DecodeAttentionInputs : HeadsInputs {
    const StepState* state = nullptr;
    const float* qkv = nullptr; ///< [rows, heads + 2 kv_heads, head_dim] before norm and RoPE
    double query_scale = 1, cap = 0;
    void* k_cache = nullptr;
    void* v_cache =
        nullptr; ///< of this layer: [kv_heads, capacity, head_dim], or rows [any, head_dim] that lists name
    const ListEntry* entries =
        nullptr; ///< null: dense. [kv_heads, capacity], positions ascending; columns are rows of k_cache
    const int32_t* counts = nullptr; ///< [kv_heads] entries of each list, at least 1
    int64_t heads =
        0; ///< a KV head's share and head_dim: at most decode::most_group, most_head_dim (asserted)
    int64_t capacity = 0;        ///< columns of the cache, or entries that a list has room for
    int64_t window = 0;          ///< sliding window: a query at p sees (p - window, p]; 0 = all
    BranchDropout dropout{};     ///< element: query head * 2^32 + key position
    float* parts = nullptr;      ///< scratch, rows * heads * decode::splits(capacity) * (head_dim + 2)
    uint32_t* arrived = nullptr; ///< scratch, [rows, kv_heads]; all 0 before the launch, and after it
    float* attended = nullptr;   ///< [rows, heads, head_dim]
    /// Optional, what the attention row of row 0 is made of afterwards (attention_rows.cu): scores at the columns that it
    /// reads, its own included, [heads, capacity] by column or by number in the list; and [heads, 2] their maximum and the sum of e^(score - maximum), written by
    /// the block that merges.
    float* scores = nullptr;
    float* score_sums = nullptr;
    float* entropies = nullptr;     ///< optional, [heads]: of row 0's attention before dropout, bits
    float* entropy_parts = nullptr; ///< scratch beside it, [heads, decode::splits(capacity)]
    int64_t rows = 1;
    bool dependent = false;
};
RL_LAUNCHER void launch_decode_attention(const DecodeAttentionInputs& in, void* stream);
RL_LAUNCHER void launch_list_attention(const DecodeAttentionInputs& in, void* stream); ///< with entries

/// Where the head's blocks leave what they find out about row 0, and where the host reads it: statistics, the k largest logits, what a draw comes to
/// where the step has a temperature, and then the step's sequence number. What earlier launches found out of each layer goes along. `to` null: nobody asks.
struct HeadAnswers {
    DeviceAnswers* to = nullptr;         ///< mapped pinned memory, as the device sees it
    int64_t top_k = 0;                   ///< 0 .. most_answer_keys, and not above vocab
    shared::SoftmaxSums* sums = nullptr; ///< scratch, [decode::answer_blocks + decode::answer_groups]
    uint64_t* keys = nullptr;            ///< scratch, as many times top_k
    uint32_t* arrived =
        nullptr;            ///< scratch, [1 + decode::answer_groups]; all 0 before the launch, and after it
    float* asked = nullptr; ///< scratch, [1]
    double* weights =
        nullptr; ///< scratch, as many as sums: sums of e^((z - max) / T), each relative to its part's maximum
    /// Numbers that launches in front have left, [num_numbers], and where the host reads them; null: none.
    const float* numbers = nullptr;
    float* numbers_to = nullptr;
    int64_t num_numbers = 0;
};

/// logits[r] = cap(head * rmsnorm(x[r])), fp32. decode::product with decode::head_outputs_per_block, or mc_product.
struct HeadInputs : NormedInputs {
    Matrix head;             ///< [vocab, hidden]
    float* logits = nullptr; ///< [rows, vocab]
    HeadAnswers answers;
    double cap = 0;
};
RL_LAUNCHER void launch_head(const HeadInputs& in, void* stream);

} // namespace refreshlab::kernels::RL_GPU
