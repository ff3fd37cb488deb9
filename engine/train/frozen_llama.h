#pragma once

#include "engine/model/gates/token_gate.h"
#include "engine/model/llama_model.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace refreshlab {

/// A model's pass over a whole text, written in ATen so that gradients flow through it to whatever changes its attention. Its weights are
/// frozen. The plain oracle of passes is PlainForward; this one agrees with it to rounding (a test compares).
///
/// Memory  weights in fp32 once more, and while gradients are wanted layers * heads * n^2 floats a few times.
/// Threads one owner.
class FrozenLlama {
public:
    /// Throws Error{bad_input}: weights in blocks (dtype native), a student whose sublayers are left out.
    explicit FrozenLlama(const LlamaModel& model);

    /// Changes attention logits, [heads, n, n] (query, key; before the causal mask), of one layer. \return the new ones
    using Change = std::function<at::Tensor(int64_t layer, const GateInputs& in, const at::Tensor& logits)>;
    /// Logits of every row, [n, vocab]. \param change  null: the model as it is
    [[nodiscard]] at::Tensor run(std::span<const int32_t> ids, const Change& change = {}) const;

private:
    [[nodiscard]] at::Tensor attention_of(int64_t layer, const GateInputs& in, const at::Tensor& q,
                                          const Change& change) const;
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
