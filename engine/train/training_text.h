#pragma once

#include "engine/session/pair/model_pair.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace refreshlab {

/// One text that a gate is trained or judged on, as ids of the model.
struct TrainingText {
    std::vector<int32_t> ids;
    int64_t prompt = 0; ///< tokens before the answer; 1 .. ids.size() - 2
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
