#pragma once

#include "engine/train/training_text.h"

#include <ATen/core/Tensor.h>

namespace refreshlab {

/// How far a model whose attention a gate has changed is from the model as it is, and from the text. Scalars, with the gradients of `rows`.
struct TextLoss {
    at::Tensor kl;         ///< KL(model || changed model) in nats, mean over rows
    at::Tensor next_token; ///< -log p of the token after each row, in nats, mean over rows that have one
};
/// \param model_rows, rows  [n - begin, vocab] log-probabilities of the model and the changed one; row i is at token begin + i
/// \param text              n tokens; begin + 1 < n
[[nodiscard]] TextLoss text_loss(const at::Tensor& model_rows, const at::Tensor& rows,
                                 const TrainingText& text, int64_t begin);
/// Its next_token alone, of log-probabilities at token begin and up.
[[nodiscard]] at::Tensor next_token_loss(const at::Tensor& rows, const TrainingText& text, int64_t begin);

} // namespace refreshlab
