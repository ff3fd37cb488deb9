#pragma once

#include "engine/model/llama_model.h"
#include "engine/policies/cache_profile.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace refreshlab {

/// Measures EpiCache's profile of a model (reference/cache-definitions.md, section 5).
///   similarity  of a layer: cosine between the key of a token that has seen all before it and its key where every token has seen its own block
///               alone, 0 at least; mean over texts, over tokens behind a text's first block, whose keys are equal, and over KV heads
/// \param texts     token ids; those of no more than a block are left out
/// \param block     tokens of a block, counted from a text's begin
/// \param progress  fraction; false cancels
/// \return nothing where it was cancelled. method and layers are set. Throws Error{bad_input}: no text is longer than a block
[[nodiscard]] std::optional<CacheProfile> measure_epicache(const LlamaModel& model,
                                                           std::span<const std::vector<int32_t>> texts,
                                                           int64_t block,
                                                           const std::function<bool(double)>& progress);

} // namespace refreshlab
