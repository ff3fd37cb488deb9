#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace refreshlab {

class LlamaModel;

/// What windows of a text are about, as far as the model's embeddings tell: their mean over the tokens of each window.
/// \param window  tokens; windows are counted from the end, so the first may be shorter
/// \return [windows, held hidden width] fp32, on the model's device
[[nodiscard]] at::Tensor embedded_windows(const LlamaModel& model, std::span<const int32_t> tokens,
                                          int64_t window);

} // namespace refreshlab
