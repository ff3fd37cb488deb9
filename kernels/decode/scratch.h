#pragma once

#include "kernels/decode/decode_plan.h"
#include "kernels/decode/device_decoder.h"
#include "kernels/decode/expert_shapes.h"
#include "kernels/decode/rows_shapes.h"

#include <algorithm>
#include <cstdint>

/// What the device's kernels hold beside weights and cache: the code that takes the memory and the estimate that is made before a run ask
/// here, so that both speak of the same bytes.
namespace refreshlab::kernels::decode {

/// Of routed experts, for `rows` rows: bytes. Of a model without any: 0.
struct ExpertScratch {
    int64_t logits = 0, routed = 0, counters = 0;
    [[nodiscard]] int64_t bytes() const { return logits + routed + counters; }
};
[[nodiscard]] inline ExpertScratch expert_scratch(const ExpertShape& experts, int64_t rows) {
    if (experts.count == 0) return {};
    return {rows * experts.count * 4, rows * experts.used * 8, rows * 4};
}
/// Numbers of a row's inner activations, where MLPs are experts in some layers or all.
[[nodiscard]] inline int64_t inner_width(const DecodeShape& s) {
    return std::max(s.ffn, s.experts.used * s.experts.width);
}

/// Of a decode step: numbers of fp32, except where it says bytes.
struct StepScratch {
    int64_t x = 0, branch = 0, qkv = 0, attended = 0, inner = 0, logits = 0, parts = 0;
    int64_t answer_sums = 0, answer_weights = 0,
            answer_keys = 0;                   ///< bytes, of the head's blocks and of their groups
    int64_t entropy_parts = 0, entropies = 0;  ///< of row 0's attention, where they are wanted
    int64_t counters = 0, answer_counters = 0; ///< bytes; counters: one a row and KV head
    ExpertScratch experts;
    [[nodiscard]] int64_t bytes() const {
        return 4 * (x + branch + qkv + attended + inner + logits + parts + entropy_parts + entropies) +
               answer_sums + answer_weights + answer_keys + counters + answer_counters + experts.bytes();
    }
};
/// \param s  its rows and capacity are the most that a step has
[[nodiscard]] inline StepScratch step_scratch(const DecodeShape& s) {
    const int64_t answers = answer_blocks(s.vocab) + answer_groups(s.vocab);
    StepScratch scratch;
    scratch.x = s.rows * s.hidden;
    if (s.branch_norms) scratch.branch = scratch.x;
    scratch.qkv = s.rows * (s.heads + 2 * s.kv_heads) * s.head_dim;
    scratch.attended = s.rows * s.heads * s.head_dim;
    scratch.inner = s.rows * inner_width(s);
    scratch.experts = expert_scratch(s.experts, s.rows);
    scratch.logits = s.rows * s.vocab;
    scratch.parts = s.rows * s.heads * splits(s.capacity) * (s.head_dim + 2) + 4; // MC rows begin at 16 bytes
    scratch.entropy_parts = s.heads * splits(s.capacity);
    scratch.entropies = s.layers * s.heads;
    scratch.answer_sums = answers * static_cast<int64_t>(sizeof(shared::SoftmaxSums));
    scratch.answer_weights = answers * static_cast<int64_t>(sizeof(double));
    scratch.answer_keys = answers * most_answer_keys * static_cast<int64_t>(sizeof(uint64_t));
    scratch.answer_counters = (1 + answer_groups(s.vocab)) * static_cast<int64_t>(sizeof(uint32_t));
    scratch.counters = s.rows * s.kv_heads * static_cast<int64_t>(sizeof(uint32_t));
    return scratch;
}

/// Of a pass of many rows: bytes.
struct PassScratch {
    int64_t tokens = 0, x = 0, h = 0, qkv = 0, attended = 0, inner = 0, parts = 0;
    ExpertScratch experts;
    [[nodiscard]] int64_t bytes() const {
        return tokens + x + h + qkv + attended + inner + parts + experts.bytes();
    }
};
/// \param s  its rows are the most of a pass: most_pass_rows where prompts are longer
[[nodiscard]] inline PassScratch pass_scratch(const DecodeShape& s) {
    const int64_t stored = bytes_of(s.type);
    PassScratch scratch;
    scratch.tokens = s.rows * static_cast<int64_t>(sizeof(int32_t));
    scratch.x = s.rows * s.hidden * 4;
    scratch.h = s.rows * s.hidden * stored;
    scratch.qkv = s.rows * (s.heads + 2 * s.kv_heads) * s.head_dim * 4;
    scratch.attended = s.rows * s.heads * s.head_dim * stored;
    scratch.inner = s.rows * inner_width(s) * stored;
    scratch.experts = expert_scratch(s.experts, s.rows);
    // Of attention, or of a product: neither is there any more when the other begins.
    const auto of_product = [&](int64_t inputs, int64_t outputs, bool normed = false) {
        const int64_t parts = rows::product_parts(s.type, inputs, outputs);
        return parts > 1 || normed ? parts * s.rows * outputs : 0;
    };
    const int64_t q = s.heads * s.head_dim;
    scratch.parts =
        4 * std::max({rows::attention_parts(s.rows, s.heads, s.head_dim, s.capacity),
                      of_product(s.hidden, q + 2 * s.kv_heads * s.head_dim),
                      of_product(q, s.hidden, s.branch_norms), of_product(s.ffn, s.hidden, s.branch_norms),
                      s.experts.used * s.rows * s.hidden}); // a part for each expert of a row
    return scratch;
}

} // namespace refreshlab::kernels::decode
