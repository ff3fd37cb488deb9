#pragma once

#include "engine/model/gates/token_gate.h"
#include "engine/train/trainable_pass.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace refreshlab {

/// A model's pass over a whole text with its weights frozen: gradients flow to whatever changes its attention, or to soft tokens behind the
/// text. Threads  one owner.
class FrozenLlama {
public:
    /// Throws Error{bad_input} as TrainablePass, and for a student whose sublayers are left out.
    explicit FrozenLlama(const LlamaModel& model);

    using Change = TrainablePass::Change;
    using Watch = TrainablePass::Watch;
    using Entries = TrainablePass::Entries;
    /// Logits of every row, [n, vocab]. \param change  null: the model as it is; \param watch  null: nobody
    [[nodiscard]] at::Tensor run(std::span<const int32_t> ids, const Change& change = {},
                                 const Watch& watch = {}) const;
    /// The pass of a gate's soft tokens (GateKind::soft_tokens) behind a text. \param text  at least one token
    void run_soft(const Entries& text, const TokenGate& gate, const Watch& watch) const;

private:
    TrainablePass m_pass;
};

} // namespace refreshlab
