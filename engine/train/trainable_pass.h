#pragma once

#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/gates/gate_inputs.h"
#include "engine/model/llama_model.h"
#include "engine/model/projection.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace refreshlab {

/// RoPE of heads, [n, heads, head_dim]; channel c turns with c + head_dim / 2. \param cos, sin  [n, head_dim / 2]
[[nodiscard]] at::Tensor turned_heads(const at::Tensor& heads, const at::Tensor& cos, const at::Tensor& sin);

/// A model's pass over rows of a text, written in ATen so that gradients flow through it: to its weights, to what is added to its linear maps,
/// or to what changes its attention. The plain oracle of passes is PlainForward; this one agrees with it to rounding (a test compares).
///
/// Weights  fp32 copies, frozen until somebody asks for their gradients. A sublayer that the model leaves out is left out.
/// Memory   weights in fp32 once more, and while gradients are wanted layers * heads * rows * columns floats a few times.
/// Threads  one owner.
class TrainablePass {
public:
    /// Throws Error{bad_input}: weights in blocks (dtype native), a model that has what this pass does not compute.
    /// \param model  outlives this
    /// \param doing  for messages: "training a gate"
    TrainablePass(const LlamaModel& model, const std::string& doing);

    /// Columns of positions 0, 1, ..., of each layer [n, kv_heads, head_dim]; k after RoPE.
    struct Entries {
        std::vector<at::Tensor> k, v;
    };
    /// Adds to what a linear map of a layer gives for `rows`; an undefined tensor: nothing.
    using Added = std::function<at::Tensor(int64_t layer, Projection place, const at::Tensor& rows)>;
    /// Changes attention logits, [heads, rows, columns] (before the mask), of one layer. \return the new ones
    using Change = std::function<at::Tensor(int64_t layer, const GateInputs& in, const at::Tensor& logits)>;
    /// Sees what a layer attended to. \param probabilities  [heads, rows, columns]
    using Watch = std::function<void(int64_t layer, const GateInputs& in, const at::Tensor& probabilities)>;

    /// What a pass is besides its rows; null and empty: not there.
    struct Around {
        const Entries* before = nullptr; ///< columns that are there already: first in every list of columns
        int64_t first = 0;               ///< position of the first row
        /// Of each row the position below which it reads `before`, and from which on it reads this pass's own columns: where the last refresh
        /// was, in a session on a given text. At most the row's own position. Empty: `first` for all.
        std::span<const int64_t> refreshed = {};
        Added added = {};
        Change change = {};
        Watch watch = {};
    };
    /// \param x  [rows, held hidden width], what the first layer reads. \return what the final norm reads
    [[nodiscard]] at::Tensor run(at::Tensor x, const Around& around) const;
    [[nodiscard]] at::Tensor embedded(std::span<const int32_t> ids) const;  ///< rows for run()
    [[nodiscard]] at::Tensor logits_of(const at::Tensor& x) const;          ///< [rows, vocab]
    [[nodiscard]] const LlamaWeights& weights() const { return m_weights; } ///< without a tied head
    [[nodiscard]] const ModelConfig& config() const { return m_model.config(); }

private:
    [[nodiscard]] at::Tensor attention_of(int64_t layer, const GateInputs& in, const at::Tensor& q,
                                          const Around& around) const;
    [[nodiscard]] at::Tensor unseen(int64_t layer, int64_t rows, const Around& around) const;
    [[nodiscard]] at::Tensor normed(const at::Tensor& x, const at::Tensor& weight) const;

    const LlamaModel& m_model;
    LlamaWeights m_weights;
};

} // namespace refreshlab
