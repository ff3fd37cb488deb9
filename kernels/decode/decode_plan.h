#pragma once

#include "kernels/decode/launch_shapes.h"

#include <cstdint>
#include <vector>

/// The launches of a decode step, worked out from a model's shape: what an executor launches, in its order, and what can be read of it
/// without a GPU. Plain numbers.
namespace refreshlab::kernels::decode {

/// Routed experts in the place of an MLP: of a layer, of a row, and their width as held.
struct ExpertShape {
    int64_t count = 0; ///< 0: the model has none
    int64_t used = 0, width = 0;
};

/// What a step's launches depend on.
struct DecodeShape {
    int64_t hidden = 0, ffn = 0; ///< as held: padded as LlamaWeights::held_width() says
    int64_t layers = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0;
    WeightType type = WeightType::bf16; ///< of weights and cache
    MatrixForm form = MatrixForm::numbers, embedding_form = MatrixForm::numbers,
               head_form = MatrixForm::numbers; ///< of the layers' matrices; in blocks beside bf16 (asserted)
    bool qkv_bias = false, output_bias = false, mlp_bias = false, qk_norm = false;
    bool qk_norm_whole = false; ///< of qk_norm: over all heads together
    /// Norms of what attention and the MLP read, and of what they add.
    bool pre_norms = true, branch_norms = false;
    std::vector<int64_t> windows;       ///< sliding window of each layer, 0 = none; empty: no layer slides
    std::vector<bool> attends, has_mlp; ///< of each layer; empty: all do (derived students may lack some)
    ExpertShape experts;
    std::vector<bool> routed; ///< layers whose MLP is experts; empty: all, where there are any
    [[nodiscard]] bool routes(int64_t layer) const {
        return experts.count > 0 && (routed.empty() || routed[static_cast<size_t>(layer)]);
    }
    int64_t rows = 1;       ///< the token's and MC rows
    int64_t context = 0;    ///< columns that the cache holds; the token's position
    int64_t top_k = -1;     ///< the head answers too, with so many of the largest logits; -1: it does not
    bool draws = false;     ///< and draws a token by temperature
    int64_t taps = 0;       ///< layers, from the first on, whose attention rows the host gets as halves
    int64_t bins = 0;       ///< of those rows (kernels/shared/attention_bins.h); 0: every key
    bool entropies = false; ///< of attention, of all layers and heads, with the answers
    int64_t capacity = 0;   ///< columns that it has room for, more than `context`
    bool dependent =
        true; ///< launches may begin before the one in front has ended (programmatic dependent launch, sm_90)
    bool clusters = true; ///< the device has clusters of blocks (sm_90)
};

enum class DecodeKernel : uint8_t {
    embed,
    norm_product, ///< q | k | v; k | v where attention is left out
    rows_append,  ///< columns of the cache: of a pass, and of a token in layers whose attention is left out
    decode_attention, ///< with RoPE, and the token's column of the cache
    qkv_attention, ///< norm_product and decode_attention in one, by clusters, where the token's row is alone
    mc_attention,  ///< of MC rows, where weights have 16 bits
    product_onto,  ///< o, down
    norm_rows,     ///< norms of q and k over all heads, of what o and down add
    norm_gate_up,
    router,         ///< chooses a row's experts
    expert_gate_up, ///< of the chosen ones, row by row
    expert_down,
    head,
    block_product,  ///< what norm_product, product_onto, norm_gate_up and head are with matrices in blocks
    attention_rows, ///< the token's attention in all layers that the host looks at, to its memory
    attention_bins, ///< the same in bins
    // of a pass of many rows (kernels/decode/rows_plan.h)
    rows_embed,
    rows_norm,
    rows_product,        ///< by tensor cores
    rows_product_wide,   ///< with blocks of 6 pairs of warps
    rows_product_f32,    ///< by fp32 units
    expert_rows_gate_up, ///< of all rows that are sent to an expert, by tensor cores
    expert_rows_down,
    rows_attention,
    rows_attention_f32,
    rows_attention_merge,
    splice
};
/// Of the launcher and, with "_kernel" or nothing behind it, of the kernel.
[[nodiscard]] const char* name_of(DecodeKernel kernel);

/// What a launch reads and writes, in bytes. "Of memory" is what L2 cannot hold from one step to the next; it is read from DRAM.
struct LaunchTraffic {
    int64_t matrices = 0;      ///< read, of memory: each matrix once
    int64_t small_weights = 0; ///< read, of memory: norms, biases, the embedding's row, RoPE's row
    int64_t cache = 0;         ///< read, of memory: the columns that the token sees, once
    int64_t cache_written = 0; ///< the token's column
    /// Matrices and columns that MC rows read once more. Matrices come from L2, as the blocks that read the same weights run side by
    /// side; columns, which the token's row has just read, where a layer's fit into it.
    int64_t again = 0;
    int64_t activations = 0;         ///< read, from L2, as often as blocks read them
    int64_t activations_written = 0; ///< to L2
    int64_t host_written = 0;        ///< to memory of the host, over the bus

    /// What the floor counts (development/performance.md, section 2): W + K n.
    [[nodiscard]] int64_t floor() const { return matrices + cache; }
    [[nodiscard]] int64_t read() const { return matrices + small_weights + cache + again + activations; }
    [[nodiscard]] int64_t written() const { return cache_written + activations_written; }
    friend bool operator==(const LaunchTraffic&, const LaunchTraffic&) = default;
};

struct PlannedLaunch {
    DecodeKernel kernel{};
    /// "q|k|v", "q/k norm", "attention", "q|k|v attention", "attention MC", "o", "o norm", "gate|up", "down", "down norm", "router", "head", "embedding"; "rows"; of a pass also "k|v", "norm", "append", "merge",
    /// "splice"
    const char* part = "";
    int64_t layer = -1; ///< -1: outside the layers
    LaunchShape shape;
    bool dependent = false;
    LaunchTraffic traffic;
    /// Which instantiation of the kernel it is: the rows that a block of a product holds, 1, 9, 17 or 25; the heads of a group that
    /// the attention is made for, 1, 2, 4, 8 or 16; the tiles of queries of MC rows, 1 or 2.
    int64_t instance = 1;
    MatrixForm form = MatrixForm::numbers;
    int64_t outer_instance = 0; ///< the argument in front of that, where instantiations differ in two; else 0
    int64_t multiply_adds = 0;  ///< fp32, of all rows that are computed: a block computes as many as it holds
    int64_t tensor_multiply_adds = 0; ///< of tensor cores, those of zeros in unfilled tiles included
    int64_t elements = 0;             ///< of weights and cache entries made fp32, each as often as it is read
    int64_t shared_bytes_read =
        0;                   ///< of shared memory: operands of the multiply-adds, and what copies bring there
    int64_t busy_blocks = 0; ///< of the grid; the others end at once
    int64_t bytes_in_flight = 0; ///< of memory, that a block has asked for at a time
    int64_t chain = 0;           ///< reads from L2 that wait for one another, besides the bytes of memory
    int64_t cluster_waits = 0;   ///< for what other blocks of a cluster bring, likewise
    bool reads_early = false;    ///< asks for them before it waits for the launch in front
    /// Where the launch does two things one after the other: what it would be with each alone. Their work is the launch's. A block of the
    /// launch takes up to `turns` of the phase's busy blocks, one after the other.
    std::vector<PlannedLaunch> phases;
    int64_t turns = 1;
};

/// The launches of one step: embedding; for each layer q|k|v and attention, in one where joins_attention() says so, that of MC rows where it is apart, o, gate|up, down, and norms where
/// they are launches of their own; attention rows
/// where they are wanted, head. Sizes > 0, heads a multiple of kv_heads and at most most_group times as many, head_dim at most
/// most_head_dim, context < capacity, 1 <= rows <= 1024, 0 <= taps <= layers (asserted).
[[nodiscard]] std::vector<PlannedLaunch> plan_step(const DecodeShape& shape);

/// What the plans ask of a shape's experts (asserted).
void require_experts(const DecodeShape& shape);

/// Of a step, or of a pass in f32: the experts of a layer, row by row.
[[nodiscard]] std::vector<PlannedLaunch> plan_experts(const DecodeShape& shape, int64_t layer, int64_t rows);
/// The first of them, and of those of any pass.
[[nodiscard]] PlannedLaunch plan_router(const DecodeShape& shape, int64_t layer, int64_t rows);

/// Of a step or a pass: norms of q and k over all their heads.
[[nodiscard]] PlannedLaunch plan_qk_norms(const DecodeShape& shape, int64_t layer, int64_t rows, bool with_q);

} // namespace refreshlab::kernels::decode
