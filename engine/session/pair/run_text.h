#pragma once

#include "engine/control/run_config.h"
#include "engine/text/prompt_text.h"

#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab {

struct ModelPair;

/// The run's prompt as its models get it: chat template (unless raw_prompt, or the model has none) and tokenizer.
/// Throws Error{bad_input}: not UTF-8, ...
[[nodiscard]] PromptText render_prompt(const ModelPair& pair, const RunConfig& config);

/// config.given_ids, or the ids of config.given_text after the prompt: those of prompt and text together if the prompt's own stay what they are,
/// else those of the text alone (a merge across the seam would change the prompt). Empty without a given text.
/// Throws Error{bad_input}: not UTF-8, a text that gives no tokens, ids outside the vocabulary.
[[nodiscard]] std::vector<int32_t> given_ids(const ModelPair& pair, const RunConfig& config,
                                             const PromptText& prompt);

/// All that a run reads, as ids. Made once for a run: a template may print the date.
struct RunText {
    PromptText prompt;
    std::vector<int32_t> given; ///< y_1, y_2, ... of a given text; empty: tokens are drawn
    /// Of a recorded run that is made again, and whose branches are its own; empty: a run of its own.
    std::string run_id = {};

    /// N at most: max_tokens, or the given text's length if that is less.
    [[nodiscard]] int64_t limit(const RunConfig& config) const;
    /// Positions that the run's caches hold at most.
    [[nodiscard]] int64_t capacity(const RunConfig& config, int64_t context) const;
};

/// render_prompt() and given_ids(); throws as they do.
[[nodiscard]] RunText run_text(const ModelPair& pair, const RunConfig& config);

} // namespace refreshlab
