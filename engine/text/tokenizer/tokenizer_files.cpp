#include "engine/text/tokenizer/tokenizer_files.h"

#include "engine/base/check.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer/tokenizer.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace refreshlab {

using ordered = nlohmann::ordered_json;

namespace {

ordered added_tokens(const std::vector<std::string>& specials) {
    ordered tokens = ordered::array();
    for (size_t id = 0; id < specials.size(); ++id) {
        tokens.push_back({{"id", id},
                          {"content", specials[id]},
                          {"single_word", false},
                          {"lstrip", false},
                          {"rstrip", false},
                          {"normalized", false},
                          {"special", true}});
    }
    return tokens;
}

ordered model_of(const TrainedBpe& bpe) {
    ordered vocab = ordered::object(), merges = ordered::array();
    auto& entries =
        vocab.get_ref<ordered::object_t&>(); // a vector: its insert() would look for an equal key each time
    for (size_t id = 0; id < bpe.tokens.size(); ++id)
        entries.emplace_back(bpe.tokens[id], id);
    for (const auto& [left, right] : bpe.merges)
        merges.push_back({bpe.tokens[static_cast<size_t>(left)], bpe.tokens[static_cast<size_t>(right)]});
    return {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", std::move(vocab)},
            {"merges", std::move(merges)}};
}

/// The place of a special token, which is its id.
size_t special_id(const TokenizerRecipe& recipe, const std::string& token) {
    const auto at = std::ranges::find(recipe.specials, token);
    RL_ASSERT(at != recipe.specials.end());
    return static_cast<size_t>(at - recipe.specials.begin());
}

} // namespace

TokenizerRecipe bundled_recipe() {
    return {
        .specials = {"<|begin|>", "<|end|>", "<|user|>", "<|assistant|>", "<|pad|>"},
        .begin = "<|begin|>",
        .end = "<|end|>",
        .pad = "<|pad|>",
        .chat_template =
            "{{ '<|begin|>' }}{% for m in messages %}{% if m['role'] == 'user' %}{{ '<|user|>' + "
            "m['content'] }}"
            "{% elif m['role'] == 'assistant' %}{{ '<|assistant|>' + m['content'] + '<|end|>' }}{% endif %}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"};
}

WordCounter::WordCounter(WordCut cut) {
    const nlohmann::json steps = pre_tokenizer_json(cut);
    m_cut = PreTokenizer(FileFields(steps, "cutting", "a training text", "pre_tokenizer"));
}

void WordCounter::add(std::string_view text) {
    if (!text.empty()) m_cut.split(text, true, [&](std::string_view word) { ++m_counts[std::string(word)]; });
}

std::vector<std::pair<std::string, std::string>> tokenizer_files(const TrainedBpe& bpe,
                                                                 const TokenizerRecipe& recipe) {
    const ordered tokenizer = {{"version", "1.0"},          {"truncation", nullptr},
                               {"padding", nullptr},        {"added_tokens", added_tokens(recipe.specials)},
                               {"normalizer", nullptr},     {"pre_tokenizer", pre_tokenizer_json(recipe.cut)},
                               {"post_processor", nullptr}, {"decoder", byte_level_json(true)},
                               {"model", model_of(bpe)}};
    const ordered config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                            {"bos_token", recipe.begin},
                            {"eos_token", recipe.end},
                            {"pad_token", recipe.pad},
                            {"model_max_length", recipe.context},
                            {"clean_up_tokenization_spaces", false},
                            {"chat_template", recipe.chat_template}};
    ordered special = {{"bos_token", recipe.begin}, {"eos_token", recipe.end}, {"pad_token", recipe.pad}};
    for (const std::string& token : recipe.specials) {
        if (token != recipe.begin && token != recipe.end && token != recipe.pad)
            special["additional_special_tokens"].push_back(token);
    }
    const ordered generation = {{"bos_token_id", special_id(recipe, recipe.begin)},
                                {"eos_token_id", special_id(recipe, recipe.end)},
                                {"pad_token_id", special_id(recipe, recipe.pad)},
                                {"do_sample", true},
                                {"temperature", 0.8},
                                {"top_p", 0.95}};
    std::vector<std::pair<std::string, std::string>> files;
    for (const auto& [name, document] : {std::pair<const char*, const ordered&>{"tokenizer.json", tokenizer},
                                         {"tokenizer_config.json", config},
                                         {"special_tokens_map.json", special},
                                         {"generation_config.json", generation}})
        files.emplace_back(name, document.dump(2) + "\n");
    // What cannot be read is not written.
    static_cast<void>(Tokenizer::parse(files.front().second, "the new tokenizer.json"));
    static_cast<void>(ChatTemplate::parse(recipe.chat_template, recipe.begin, recipe.end, "the chat template")
                          ->render({{"user", "a"}, {"assistant", "b"}}));
    return files;
}

} // namespace refreshlab
