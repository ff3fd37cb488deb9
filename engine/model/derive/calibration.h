#pragma once

#include "engine/model/llama_model.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace refreshlab {

class LayerHooks;

/// Tokens of a text on which channels are chosen and sublayers are tried, at most: beyond them a longer text says little more
/// and takes longer.
inline constexpr int64_t channel_tokens = 1024, search_tokens = 256;

/// How much each MLP channel of a model does on a text: the norm over the text of its activation silu(gate) * up, each
/// position scaled to length 1, times the norm of its column of down_proj.
/// \param also  a hook that is called in the same pass
/// \return by layer, [intermediate]; layers without MLP: empty
/// Source: GRIFFIN (Dong et al. 2024), eq. 4-6; the factor of down_proj as in Wanda (Sun et al. 2023).
/// Cost: one prefill of the text, at most channel_tokens of it.
[[nodiscard]] std::vector<std::vector<double>>
channel_scores(const LlamaModel& model, std::span<const int32_t> text, LayerHooks* also = nullptr);

/// The `count` channels of the largest scores, ascending; of equal scores the first.
[[nodiscard]] std::vector<int64_t> best_channels(const std::vector<double>& scores, int64_t count);

/// Sublayers that a model leaves out.
struct Skips {
    std::vector<int32_t> attention, mlp; ///< ascending
    friend bool operator==(const Skips&, const Skips&) = default;
};

/// Leaves out `count` more sublayers of `student`, one after the other: each time the one with which the mean
/// KL(teacher || student) over the text is lowest; of equal ones the first, attention before MLP.
/// \param with      the student without these sublayers; called for every trial
/// \param progress  false cancels (Error "cancelled")
/// Cost: (2 * layers * count) prefills of the text, at most search_tokens of it.
[[nodiscard]] Skips search_skips(const LlamaModel& teacher,
                                 const std::function<std::unique_ptr<LlamaModel>(const Skips&)>& with,
                                 Skips start, int64_t count, std::span<const int32_t> text,
                                 const LoadProgress& progress);

} // namespace refreshlab
