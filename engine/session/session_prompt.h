#pragma once

#include "engine/control/run_config.h"
#include "engine/text/prompt_text.h"

#include <cstdint>
#include <vector>

namespace refreshlab {

struct ModelPair;

/// The run's prompt as its models get it: chat template (unless raw_prompt, or the model has none) and tokenizer.
/// Throws Error{bad_input}: not UTF-8, ...
[[nodiscard]] PromptText render_prompt(const ModelPair& pair, const RunConfig& config);

/// Ids of config.given_text behind the prompt: those of prompt and text together if the prompt's own stay what they are,
/// else those of the text alone (a merge across the seam would change the prompt). Empty without a given text.
/// Throws Error{bad_input}: not UTF-8, a text that gives no tokens.
[[nodiscard]] std::vector<int32_t> given_ids(const ModelPair& pair, const RunConfig& config,
                                             const PromptText& prompt);

} // namespace refreshlab
