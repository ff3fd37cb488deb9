#pragma once

#include "engine/model/llama_model.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace refreshlab {

/// What the channels of an MLP are chosen by.
enum class ChannelScore : uint8_t {
    derive,   ///< as a derived student's are: channel_scores() (calibration.h)
    overfill, ///< the root over texts of the mean activation's square: sqrt(sum_b (mean_t u(b, t)[i])^2), u what down_proj reads
};

/// How much each channel of a model does on texts.
struct WidthScores {
    std::vector<double> hidden;           ///< [hidden]
    std::vector<std::vector<double>> ffn; ///< by layer, [intermediate]
};

/// Hidden channels: sqrt(sum_b (sum_l sum_norms |mean_t out(b, t)[c]|)^2), out = what the two RMSNorms of layer l give, b a text,
/// t a token of it: one score for the whole model. MLP channels as `by` says.
/// Source: OverFill (Kim et al. 2025) after Minitron (Muralidharan et al. 2024); reference/refresh.md, 4.
/// \param texts     at least one, none empty                                                              (asserted)
/// \param progress  false cancels (Error "cancelled")
/// Cost: a prefill of each text, of at most channel_tokens of it.
[[nodiscard]] WidthScores width_scores(const LlamaModel& model, std::span<const std::vector<int32_t>> texts,
                                       ChannelScore by, const LoadProgress& progress = {});

/// Channels that stay, ascending: those of the hidden width in all layers, those of the MLP by layer.
struct KeptChannels {
    std::vector<int64_t> hidden;
    std::vector<std::vector<int64_t>> ffn;
};
/// The channels of the largest scores; of equal ones the first.
[[nodiscard]] KeptChannels best_widths(const WidthScores& scores, int64_t hidden, int64_t ffn);

/// The pruned model's configuration: the model's with these widths; head_dim and all that decides on the KV geometry stay.
/// Throws Error{bad_input}: a width below 1 or above the model's, a model whose structure width pruning does not fit (routed experts,
/// norms of what sublayers add, numbers that go with the width), named.
[[nodiscard]] ModelConfig pruned_config(const ModelConfig& model, int64_t hidden, int64_t ffn);

/// The model with these channels alone: rows and columns of its weights, in its dtype. An RMSNorm divides by the mean over the channels
/// that stay, and its weights are the model's own. All channels: the same logits bit for bit.
/// \param model  weights in blocks are unpacked before (asserted: it keeps none)
[[nodiscard]] std::unique_ptr<LlamaModel> prune_widths(const LlamaModel& model, const KeptChannels& kept);

} // namespace refreshlab
