#pragma once

#include "engine/control/run_config.h"

#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab {

struct ModelPair;

/// A prompt as it is tokenized: what is shown and what is fed are one thing.
struct RenderedPrompt {
    std::string rendered; ///< behind the chat template, or the raw prompt
    std::vector<int32_t> ids;
};

/// Chat template (unless raw_prompt, or the model has none) and tokenizer. A template writes its own begin token; a raw
/// prompt gets the tokenizer's. Throws Error{bad_input}: not UTF-8, ...
[[nodiscard]] RenderedPrompt render_prompt(const ModelPair& pair, const RunConfig& config);

/// Ids of config.given_text behind the prompt: those of prompt and text together if the prompt's own stay what they are,
/// else those of the text alone (a merge across the seam would change the prompt). Empty without a given text.
/// Throws Error{bad_input}: not UTF-8, a text that gives no tokens.
[[nodiscard]] std::vector<int32_t> given_ids(const ModelPair& pair, const RunConfig& config,
                                             const RenderedPrompt& prompt);

} // namespace refreshlab
