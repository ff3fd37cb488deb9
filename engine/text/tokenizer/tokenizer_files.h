#pragma once

#include "engine/text/tokenizer/bpe_trainer.h"
#include "engine/text/tokenizer/pre_tokenizer.h"
#include "engine/text/tokenizer/word_cut.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refreshlab {

/// What a tokenizer has besides its merges.
struct TokenizerRecipe {
    std::vector<std::string> specials; ///< special tokens; their ids are their places
    std::string begin, end, pad;       ///< three of them
    std::string chat_template;         ///< Jinja
    WordCut cut = WordCut::llama3;
    int64_t context = 2048; ///< model_max_length
};

/// Special tokens and chat template of the bundled models: <|begin|>, <|end|>, <|user|>, <|assistant|>, <|pad|>.
[[nodiscard]] TokenizerRecipe bundled_recipe();

/// Counts the words of texts.
class WordCounter {
public:
    explicit WordCounter(WordCut cut);
    /// \param text  valid UTF-8. Throws Error{bad_input}: cutting it needs more backtracking than a regex may take
    void add(std::string_view text);
    [[nodiscard]] const WordCounts& counts() const { return m_counts; }

private:
    PreTokenizer m_cut;
    WordCounts m_counts;
};

/// The files of a Hugging Face folder that belong to its tokenizer, name and text: tokenizer.json, tokenizer_config.json,
/// special_tokens_map.json, generation_config.json. Both Tokenizer and ChatTemplate read what they say.
/// Throws Error{bad_input}: a chat template that does not run.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> tokenizer_files(const TrainedBpe& bpe,
                                                                               const TokenizerRecipe& recipe);

} // namespace refreshlab
