#include "engine/text/tokenizer/word_cut.h"

#include <nlohmann/json.hpp>

#include <string>
#include <utility>

namespace refreshlab {

nlohmann::json byte_level_json(bool cuts) {
    return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", cuts}};
}

nlohmann::json pre_tokenizer_json(WordCut cut) {
    using enum WordCut;
    const auto sequence = [](nlohmann::json steps) {
        return nlohmann::json{{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
    };
    // Words with what stands before them, digits in groups, punctuation with the line ends after it, space.
    const auto words = [](const std::string& letters, const char* digits) {
        return "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?" + letters + "+|" + digits + "| ?[^\\s" +
               (letters.front() == '[' ? "\\p{L}\\p{M}" : "\\p{L}") +
               "\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    };
    std::string pattern;
    switch (cut) {
    case gpt2:
        return byte_level_json(true);
    case digits_gpt2:
        return sequence({{{"type", "Digits"}, {"individual_digits", true}}, byte_level_json(true)});
    case llama3:
        pattern = words("\\p{L}", "\\p{N}{1,3}");
        break;
    case qwen2:
        pattern = words("\\p{L}", "\\p{N}");
        break;
    case qwen35:
        pattern = words("[\\p{L}\\p{M}]", "\\p{N}");
        break;
    case tekken:
    case o200k: {
        const std::string before = "[^\\r\\n\\p{L}\\p{N}]?", upper = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]",
                          lower = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";
        const std::string after = cut == o200k ? "(?i:'s|'t|'re|'ve|'m|'ll|'d)?" : "",
                          digits = cut == o200k ? "\\p{N}{1,3}" : "\\p{N}";
        pattern = before + upper + "*" + lower + "+" + after + "|" + before + upper + "+" + lower + "*" +
                  after + "|" + digits + "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    }
    }
    return sequence(
        {{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}},
         byte_level_json(false)});
}

} // namespace refreshlab
