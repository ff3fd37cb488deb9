#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string_view>
#include <utility>

namespace refreshlab {

/// How a byte-level model cuts text into words, which merges never cross.
enum class WordCut : uint8_t { gpt2, digits_gpt2, llama3, qwen2, qwen35, tekken, o200k };

/// By the names that command lines have for them.
inline constexpr std::pair<std::string_view, WordCut> word_cuts[] = {
    {"gpt2", WordCut::gpt2},   {"digits_gpt2", WordCut::digits_gpt2}, {"llama3", WordCut::llama3},
    {"qwen2", WordCut::qwen2}, {"qwen35", WordCut::qwen35},           {"tekken", WordCut::tekken},
    {"o200k", WordCut::o200k}};

/// A ByteLevel step or decoder. \param cuts  it cuts as GPT-2 does
[[nodiscard]] nlohmann::json byte_level_json(bool cuts);
/// The `pre_tokenizer` of a tokenizer.json that cuts so.
[[nodiscard]] nlohmann::json pre_tokenizer_json(WordCut cut);

} // namespace refreshlab
