#pragma once

#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/gates/gate_inputs.h"
#include "engine/model/llama_model.h"
#include "engine/model/projection.h"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace refreshlab {

/// RoPE of heads, [n, heads, head_dim]; channel c turns with c + head_dim / 2. \param cos, sin  [n, head_dim / 2]
[[nodiscard]] at::Tensor turned_heads(const at::Tensor& heads, const at::Tensor& cos, const at::Tensor& sin);

/// Shares that dropout sets to zero in training; what stays is divided by 1 - share. Two are those of config.json that MC dropout reads.
struct Dropout {
    /// Of keys, by head. All queries of a text share the mask, so that each sees ordinary attention dropout.
    double attention = 0;
    double residual = 0;  ///< of what attention and MLP add
    double embedding = 0; ///< of what the first layer reads
};

/// A model's pass over rows of a text, written in ATen so that gradients flow through it: to its weights, to what is added to its linear maps,
/// or to what changes its attention. The plain oracle of passes is PlainForward; this one agrees with it to rounding (a test compares).
///
/// Weights  fp32 copies, frozen until somebody asks for their gradients. A sublayer that the model leaves out is left out.
/// Texts    several may be read at once, one behind the other: linear maps have the rows of all, attention stays within each text.
/// Memory   weights in fp32 once more, and while gradients are wanted layers * heads * rows * columns floats a few times, of each text.
/// Threads  one owner.
class TrainablePass {
public:
    /// In which numbers products of matrices are computed. All else is fp32.
    enum class Products : uint8_t {
        f32,
        bf16, ///< factors rounded to bf16, sums in fp32 as libtorch has them: what its autocast does to the same operations
    };

    /// Throws Error{bad_input}: weights in blocks (dtype native), a model that has what this pass does not compute.
    /// \param model  outlives this
    /// \param doing  for messages: "training a gate"
    TrainablePass(const LlamaModel& model, const std::string& doing, Products products = Products::f32);

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

    /// The rows of one text.
    struct Text {
        int64_t rows = 0;
        const Entries* before = nullptr; ///< columns that are there already: first in every list of columns
        int64_t first = 0;               ///< position of the first row
        /// Of each row the position below which it reads `before`, and from which on it reads this pass's own columns: where the last refresh
        /// was, in a session on a given text. At most the row's own position. Empty: `first` for all.
        std::span<const int64_t> refreshed = {};
    };
    /// Dropout with masks of this pass's own.
    struct Dropping {
        Dropout shares;
        at::Generator random; ///< of the CPU, so that every device has the same masks
    };
    /// What a pass is besides its rows; null and empty: not there.
    struct Around {
        std::span<const Text> texts = {}; ///< one behind the other; empty: one, of all rows, from position 0
        Added added = {};
        Change change = {}; ///< of a pass of one text, as watch
        Watch watch = {};
        std::optional<Dropping> dropping = {};
    };
    /// \param x  [rows, held hidden width], what the first layer reads. \return what the final norm reads
    [[nodiscard]] at::Tensor run(at::Tensor x, const Around& around) const;
    [[nodiscard]] at::Tensor embedded(std::span<const int32_t> ids) const; ///< rows for run(), before dropout
    [[nodiscard]] at::Tensor logits_of(const at::Tensor& x) const;         ///< [rows, vocab]
    [[nodiscard]] const LlamaWeights& weights() const { return m_weights; } ///< without a tied head
    [[nodiscard]] const ModelConfig& config() const { return m_model.config(); }

private:
    [[nodiscard]] at::Tensor attention_of(int64_t layer, const GateInputs& in, const at::Tensor& q,
                                          const Around& around, std::span<const at::Tensor> hidden) const;
    [[nodiscard]] at::Tensor hidden_columns(int64_t window, const Text& text) const;
    [[nodiscard]] at::Tensor normed(const at::Tensor& x, const at::Tensor& weight) const;
    [[nodiscard]] at::Tensor linear_of(const at::Tensor& x, const at::Tensor& weight,
                                       const at::Tensor& bias) const;
    [[nodiscard]] at::Tensor factor(const at::Tensor& x) const; ///< as products take it

    const LlamaModel& m_model;
    LlamaWeights m_weights;
    Products m_products;
};

} // namespace refreshlab
