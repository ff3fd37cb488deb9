#pragma once

#include "engine/model/gates/token_gate.h"
#include "engine/model/llama_model.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace refreshlab {

/// A model's pass over a whole text, written in ATen so that gradients flow through it to whatever changes its attention, or to soft tokens
/// behind the text. Its weights are frozen. The plain oracle of passes is PlainForward; this one agrees with it to rounding (a test compares).
///
/// Memory  weights in fp32 once more, and while gradients are wanted layers * heads * n^2 floats a few times.
/// Threads one owner.
class FrozenLlama {
public:
    /// Throws Error{bad_input}: weights in blocks (dtype native), a student whose sublayers are left out.
    explicit FrozenLlama(const LlamaModel& model);

    /// Changes attention logits, [heads, n, n] (query, key; before the causal mask), of one layer. \return the new ones
    using Change = std::function<at::Tensor(int64_t layer, const GateInputs& in, const at::Tensor& logits)>;
    /// Sees what a layer attended to. \param probabilities  [heads, rows, keys]
    using Watch = std::function<void(int64_t layer, const GateInputs& in, const at::Tensor& probabilities)>;
    /// Logits of every row, [n, vocab]. \param change  null: the model as it is; \param watch  null: nobody
    [[nodiscard]] at::Tensor run(std::span<const int32_t> ids, const Change& change = {},
                                 const Watch& watch = {}) const;

    /// Entries of a text, of each layer [n, kv_heads, head_dim]; k after RoPE.
    struct Entries {
        std::vector<at::Tensor> k, v;
    };
    /// The pass of a gate's soft tokens (GateKind::soft_tokens) behind a text. \param text  at least one token
    void run_soft(const Entries& text, const TokenGate& gate, const Watch& watch) const;

private:
    /// What a pass is besides its rows; null and empty: not there.
    struct Around {
        const Entries* before = nullptr;
        const TokenGate* soft = nullptr; ///< whose changes the rows go through
        const Change& change;
        const Watch& watch;
    };
    /// \param x  [n, held hidden width], what the first layer reads. \return what the final norm reads
    [[nodiscard]] at::Tensor pass(at::Tensor x, const Around& around) const;
    [[nodiscard]] at::Tensor attention_of(int64_t layer, const GateInputs& in, const at::Tensor& q,
                                          const Around& around) const;
    [[nodiscard]] at::Tensor normed(const at::Tensor& x, const at::Tensor& weight) const;

    const LlamaModel& m_model;
    struct Layer {
        at::Tensor input_norm, q, k, v, o, post_norm, gate, up, down;
        at::Tensor q_bias, k_bias, v_bias, o_bias, gate_bias, up_bias, down_bias, q_norm, k_norm;
    };
    at::Tensor m_embedding, m_final_norm, m_head;
    std::vector<Layer> m_layers;
};

} // namespace refreshlab
