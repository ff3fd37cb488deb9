#pragma once

#include "engine/train/training_text.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace refreshlab {

/// How far a model whose attention a gate has changed is from the model as it is, and from the text. Scalars, with the gradients of `rows`.
struct TextLoss {
    at::Tensor kl;         ///< KL(model || changed model) in nats, mean over rows
    at::Tensor next_token; ///< -log p of the token after each row, in nats, mean over rows that have one
};
/// Rows of a text that are trained for a distribution of their own, in place of the text's next token and of the model's row.
struct RowTargets {
    std::vector<int64_t> rows; ///< ascending; each has a token after it
    std::vector<std::shared_ptr<const TokenShares>> shares;
};
/// \param model_rows, rows  [n - begin, vocab] log-probabilities of the model and the changed one; row i is at token begin + i
/// \param text              n tokens; begin + 1 < n
/// \param targets           of these rows the loss is their cross-entropy to the target, and KL(target || changed model)
[[nodiscard]] TextLoss text_loss(const at::Tensor& model_rows, const at::Tensor& rows,
                                 const TrainingText& text, int64_t begin, const RowTargets& targets = {});
/// Its next_token alone, of log-probabilities at token begin and up.
[[nodiscard]] at::Tensor next_token_loss(const at::Tensor& rows, const TrainingText& text, int64_t begin,
                                         const RowTargets& targets = {});

} // namespace refreshlab
