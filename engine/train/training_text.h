#pragma once

#include "engine/session/pair/model_pair.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab {

/// What a row is trained for in place of the text's next token.
struct TokenShares {
    std::vector<int32_t> ids;  ///< ascending
    std::vector<float> shares; ///< of each; their sum is 1
};
/// A token that states a fact, which shall not be learned by heart (models/withheld_facts.h).
struct WithheldToken {
    int64_t position = 0; ///< in the text, from 1
    int64_t name = 0;     ///< where the name is complete that the fact belongs to; before it
    std::shared_ptr<const TokenShares> target; ///< of the row before `position`
};

/// One text that a gate or a model is trained or judged on, as ids of the model.
struct TrainingText {
    std::vector<int32_t> ids;
    int64_t prompt = 0;                       ///< tokens before the answer; 1 .. ids.size() - 2
    std::vector<WithheldToken> withheld = {}; ///< by position; most texts have none
};

/// Texts of files. A .jsonl file gives one text a row: "prompt", in the model's chat template, with its answer ("response" or
/// "reference"), or "text". Any other file is one text in UTF-8. Texts without an answer are cut into pieces of `length` tokens, whose last
/// quarter counts as the answer; a longer prompt with its answer loses what is behind `length`. What has fewer than 32 tokens is left out.
/// Throws Error{bad_input} naming file and row; also where nothing is left.
/// \param pair    a loaded teacher, for its tokenizer and template
/// \param length  64 or more                                                                            (asserted)
/// \param fewest  fewer texts are refused; by default as many as give one that is held out
[[nodiscard]] std::vector<TrainingText> read_training_texts(const ModelPair& pair,
                                                            const std::vector<std::filesystem::path>& files,
                                                            int64_t length, int64_t fewest = 8);

/// Every eighth text is held out: in [0], in the order of the files. The others in [1].
[[nodiscard]] std::array<std::vector<TrainingText>, 2> held_out_and_trained(std::vector<TrainingText> texts);

/// Digest of all ids.
[[nodiscard]] std::string texts_digest(const std::vector<TrainingText>& texts);

} // namespace refreshlab
