#pragma once

#include "engine/model/llama_model.h"
#include "engine/policies/cache_profile.h"
#include "engine/train/needle_texts.h"

#include <functional>
#include <optional>
#include <span>

namespace refreshlab {

/// Measures CompressKV's profile of a model, in two passes over texts with needles (reference/cache-definitions.md, section 5).
///   heads  wherever the model's first choice in an answer is a token of the needle, each query head is given the attention that it pays
///          the needle; the four heads of a layer with the most are its own
///   error  |O - O'| / |O| of a layer, Frobenius norms, mean over texts: O is what its attention adds to the residual over the answer's rows,
///          O' the same where of the text before the answer only `share` of the entries stays, chosen by these heads
/// \param share     0 to 1; at least twice the window of 8 rows stays
/// \param progress  fraction; false cancels
/// \return nothing where it was cancelled. method and layers are set. Throws Error{bad_input}: no first choice was ever in a needle
[[nodiscard]] std::optional<CacheProfile> measure_compress_kv(const LlamaModel& model,
                                                              std::span<const NeedleText> texts, double share,
                                                              const std::function<bool(double)>& progress);

} // namespace refreshlab
