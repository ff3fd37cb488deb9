#include "engine/model/gguf/gguf_text.h"

#include "engine/base/json_text.h"
#include "engine/text/chat_template.h"
#include "engine/text/digest.h"
#include "engine/text/tokenizer/bpe.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "engine/text/tokenizer/word_cut.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace refreshlab {

namespace {

using nlohmann::json;

constexpr const char* model_key = "tokenizer.ggml.model";
constexpr const char* pre_key = "tokenizer.ggml.pre";
constexpr const char* tokens_key = "tokenizer.ggml.tokens";
constexpr const char* types_key = "tokenizer.ggml.token_type";
constexpr const char* merges_key = "tokenizer.ggml.merges";
constexpr const char* scores_key = "tokenizer.ggml.scores";

/// Kinds of tokens, numbered as in the file.
enum TokenType : int64_t { normal = 1, unknown, control, user_defined, unused, byte };

/// How a byte-level model cuts text into words, and what comes with it.
struct Words {
    WordCut cut;
    bool ignore_merges = false;
    bool begin = false;                  ///< a begin token where add_bos_token is silent
    std::vector<std::string_view> names; ///< of tokenizer.ggml.pre
};

/// By the pre-tokenizers of the tokenizer.json that llama.cpp derived each name from.
const std::vector<Words>& known_words() {
    using enum WordCut;
    static const std::vector<Words> words = {
        {gpt2,
         false,
         false,
         {"gpt-2", "phi-2", "gigachat", "mellum", "modern-bert", "exaone4", "mpt", "olmo", "jais", "trillion",
          "granite-docling"}},
        {digits_gpt2,
         false,
         false,
         {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"}},
        {llama3,
         true,
         true,
         {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"}},
        {llama3, false, false, {"dbrx", "smaug-bpe", "chatglm-bpe", "glm4"}},
        {qwen2,
         false,
         false,
         {"qwen2", "deepseek-r1-qwen", "megrez", "kormo", "hunyuan", "solar-open", "stablelm2"}},
        {qwen35, false, false, {"qwen35"}},
        {tekken, true, true, {"tekken"}},
        {o200k, false, false, {"gpt-4o", "llama4", "kanana2"}},
    };
    return words;
}

const Words& words_of(const GgufFile& file) {
    const auto pre = file.text(pre_key);
    if (!pre)
        file.fail_key(pre_key, "is missing, so it is not known how text is cut into words",
                      "the file is of before April 2024: convert the model again");
    std::string known;
    for (const Words& words : known_words()) {
        for (const std::string_view name : words.names) {
            if (name == *pre) return words;
            known += (known.empty() ? "" : ", ") + std::string(name);
        }
    }
    file.fail_key(pre_key, "is " + visible_text(*pre, 60) + ", which is not supported",
                  "supported: " + known);
}

/// The lists of the vocabulary, checked against each other.
struct Vocabulary {
    std::vector<std::string_view> tokens; ///< by id
    std::vector<int64_t> types;
    std::unordered_map<std::string_view, int64_t> ids; ///< without unused tokens

    explicit Vocabulary(const GgufFile& file) {
        auto list = file.texts(tokens_key);
        if (!list) file.fail_key(tokens_key, "is missing");
        tokens = std::move(*list);
        if (tokens.empty() || static_cast<int64_t>(tokens.size()) > max_token_id)
            file.fail_key(tokens_key, fmt::format("has {} tokens, and 1 to {} are possible", tokens.size(),
                                                  max_token_id));
        auto kinds = file.integers(types_key);
        types = kinds ? std::move(*kinds) : std::vector<int64_t>(tokens.size(), normal);
        if (types.size() != tokens.size())
            file.fail_key(types_key,
                          fmt::format("has {} entries for {} tokens", types.size(), tokens.size()));
        ids.reserve(tokens.size());
        for (size_t i = 0; i < tokens.size(); ++i) {
            if (types[i] < normal || types[i] > byte)
                file.fail_key(types_key,
                              fmt::format("says {} of token {}, and 1 to 6 are known", types[i], i));
            if (types[i] == unused) continue; // filling, which the vocabulary of the model does not have
            const auto [known, fresh] = ids.emplace(tokens[i], static_cast<int64_t>(i));
            if (!fresh)
                file.fail_key(tokens_key, fmt::format("gives \"{}\" to tokens {} and {}",
                                                      visible_text(tokens[i], 60), known->second, i));
        }
    }

    [[nodiscard]] bool is_added(size_t id) const {
        return (types[id] == unknown || types[id] == control || types[id] == user_defined) &&
               !tokens[id].empty();
    }

    [[nodiscard]] json vocab() const {
        json object = json::object();
        for (const auto& [token, id] : ids)
            object.emplace(std::string(token), id);
        return object;
    }

    /// Unknown and control tokens are special; user-defined ones are not.
    [[nodiscard]] json added_tokens() const {
        json list = json::array();
        for (size_t i = 0; i < tokens.size(); ++i) {
            if (is_added(i))
                list.push_back({{"id", i},
                                {"content", tokens[i]},
                                {"special", types[i] != user_defined},
                                {"normalized", false}});
        }
        return list;
    }
};

/// "left right", cut at the first space after the first byte: a piece may begin with one.
json listed_merges(const GgufFile& file, const Vocabulary& vocabulary) {
    const auto lines = file.texts(merges_key);
    if (!lines) file.fail_key(merges_key, "is missing");
    json merges = json::array();
    std::string both;
    for (size_t i = 0; i < lines->size(); ++i) {
        const std::string_view line = (*lines)[i];
        const size_t space = line.size() < 3 ? std::string_view::npos : line.find(' ', 1);
        if (space == std::string_view::npos || space + 1 == line.size())
            file.fail_key(merges_key,
                          fmt::format("has an entry {}, \"{}\", that is not two pieces with a space between",
                                      i, visible_text(line, 60)));
        const std::string_view left = line.substr(0, space), right = line.substr(space + 1);
        both.assign(left).append(right);
        for (const std::string_view piece : {left, right, std::string_view(both)}) {
            if (!vocabulary.ids.contains(piece))
                file.fail_key(merges_key, fmt::format("has an entry {} that names \"{}\", which is no token",
                                                      i, visible_text(piece, 60)));
        }
        merges.push_back({left, right});
    }
    return merges;
}

/// The merges of a SentencePiece model: two pieces that make a third, best score first. Of those that make one piece, and of
/// equal scores, the longer left part comes first, as in the tokenizer.json that transformers makes.
json scored_merges(const GgufFile& file, const Vocabulary& vocabulary) {
    const auto scores = file.numbers(scores_key);
    if (!scores) file.fail_key(scores_key, "is missing");
    const auto& tokens = vocabulary.tokens;
    if (scores->size() != tokens.size())
        file.fail_key(scores_key, fmt::format("has {} entries for {} tokens", scores->size(), tokens.size()));
    constexpr size_t longest = 512; // every piece is cut at each of its characters
    struct Merge {
        double score;
        size_t left_length, right_length; ///< characters
        std::string_view left, right;
    };
    std::vector<Merge> merges;
    for (size_t id = 0; id < tokens.size(); ++id) {
        if (vocabulary.types[id] != normal) continue;
        const std::string_view piece = tokens[id];
        if (piece.size() > longest)
            file.fail_key(tokens_key, fmt::format("has a token {} of {} bytes, and {} are the most", id,
                                                  piece.size(), longest));
        if (!std::isfinite((*scores)[id]))
            file.fail_key(scores_key, fmt::format("says {} of token {}", (*scores)[id], id));
        const auto characters = static_cast<size_t>(count_code_points(piece));
        size_t left = 0;
        for (size_t at = 0; at < piece.size(); at += utf8_step(piece, at).length, ++left) {
            if (at == 0) continue;
            const auto is_piece = [&](std::string_view part) {
                const auto found = vocabulary.ids.find(part);
                return found != vocabulary.ids.end() &&
                       vocabulary.types[static_cast<size_t>(found->second)] == normal;
            };
            if (is_piece(piece.substr(0, at)) && is_piece(piece.substr(at)))
                merges.push_back(
                    {(*scores)[id], left, characters - left, piece.substr(0, at), piece.substr(at)});
        }
    }
    std::stable_sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
        return std::tie(a.score, a.left_length, a.right_length) >
               std::tie(b.score, b.left_length, b.right_length);
    });
    json list = json::array();
    for (const Merge& merge : merges)
        list.push_back({merge.left, merge.right});
    return list;
}

/// Begin and end tokens around a text, as TemplateProcessing; null where there are none.
json post_processor(const GgufFile& file, const Vocabulary& vocabulary, bool begin_by_default) {
    json single = json::array(), tokens = json::object();
    const auto add = [&](const char* name, const char* flag_key, const char* id_key, bool by_default) {
        if (!file.flag(flag_key).value_or(by_default)) return;
        const auto id = file.integer(id_key, 0, static_cast<int64_t>(vocabulary.tokens.size()) - 1);
        if (!id) file.fail_key(id_key, std::string("is missing, and ") + flag_key + " asks for the token");
        single.push_back({{"SpecialToken", {{"id", name}}}});
        tokens[name] = {{"ids", json::array({*id})}};
    };
    add("begin", "tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id", begin_by_default);
    single.push_back({{"Sequence", {{"id", "A"}}}});
    add("end", "tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id", false);
    if (tokens.empty()) return nullptr;
    return {
        {"type", "TemplateProcessing"}, {"single", std::move(single)}, {"special_tokens", std::move(tokens)}};
}

json byte_level_document(const GgufFile& file, const Vocabulary& vocabulary) {
    const Words& words = words_of(file);
    json document = {{"pre_tokenizer", pre_tokenizer_json(words.cut)}, {"decoder", byte_level_json(true)}};
    if (words.cut == WordCut::qwen2 || words.cut == WordCut::qwen35)
        document["normalizer"] = {{"type", "NFC"}};
    document["model"] = {{"type", "BPE"}, {"ignore_merges", words.ignore_merges}};
    document["model"]["merges"] = listed_merges(file, vocabulary);
    document["post_processor"] = post_processor(file, vocabulary, words.begin);
    return document;
}

json sentencepiece_document(const GgufFile& file, const Vocabulary& vocabulary) {
    constexpr const char* sign = "\u2581"; // stands for a space
    const bool prefix = file.flag("tokenizer.ggml.add_space_prefix").value_or(true);
    const auto replace = [](const char* what, const char* with) {
        return json{{"type", "Replace"}, {"pattern", {{"String", what}}}, {"content", with}};
    };
    json normalizers = json::array(), decoders = json::array();
    if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", sign}});
    normalizers.push_back(replace(" ", sign));
    decoders.push_back(replace(sign, " "));
    decoders.push_back({{"type", "ByteFallback"}});
    decoders.push_back({{"type", "Fuse"}});
    if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    json document = {{"normalizer", {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}}},
                     {"decoder", {{"type", "Sequence"}, {"decoders", std::move(decoders)}}}};
    document["model"] = {{"type", "BPE"}, {"byte_fallback", true}, {"fuse_unk", true}};
    for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
        if (vocabulary.types[i] == unknown) document["model"]["unk_token"] = vocabulary.tokens[i];
    }
    document["model"]["merges"] = scored_merges(file, vocabulary);
    document["post_processor"] = post_processor(file, vocabulary, true);
    return document;
}

/// The document that Tokenizer reads.
json tokenizer_document(const GgufFile& file) {
    const auto model = file.text(model_key);
    if (!model) file.fail_key(model_key, "is missing");
    if (*model != "gpt2" && *model != "llama")
        file.fail_key(model_key, "is " + visible_text(*model, 60) + ", which is not supported",
                      "supported: gpt2 (byte-level BPE), llama (SentencePiece with scores)");
    const Vocabulary vocabulary(file);
    json document =
        *model == "gpt2" ? byte_level_document(file, vocabulary) : sentencepiece_document(file, vocabulary);
    document["model"]["vocab"] = vocabulary.vocab();
    document["added_tokens"] = vocabulary.added_tokens();
    return document;
}

/// What the `tokenizers` library wants to be said, and Tokenizer does not need.
void complete(json& document) {
    document["version"] = "1.0";
    for (const char* key :
         {"truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
        if (!document.contains(key)) document[key] = nullptr;
    }
    for (json& token : document["added_tokens"])
        token.update({{"single_word", false}, {"lstrip", false}, {"rstrip", false}});
    json& post = document["post_processor"];
    if (post.is_null()) return;
    for (json& item : post["single"])
        item.begin().value()["type_id"] = 0;
    post["pair"] = post["single"];
    json second = {{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
    post["pair"].push_back(std::move(second));
    for (auto& [name, token] : post["special_tokens"].items()) {
        token["id"] = name;
        token["tokens"] = json::array({name});
    }
}

} // namespace

std::shared_ptr<const Tokenizer> gguf_tokenizer(const GgufFile& file) {
    return Tokenizer::make(tokenizer_document(file), "reading the tokenizer of", file.name());
}

std::string gguf_tokenizer_json(const GgufFile& file) {
    json document = tokenizer_document(file);
    complete(document);
    return json_text(document, 1);
}

std::string gguf_tokenizer_config_json(const GgufFile& file) {
    json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
    const auto tokens = file.texts(tokens_key).value_or(std::vector<std::string_view>());
    for (const auto& [name, key] : {std::pair("bos_token", "tokenizer.ggml.bos_token_id"),
                                    std::pair("eos_token", "tokenizer.ggml.eos_token_id")}) {
        if (tokens.empty()) continue;
        if (const auto id = file.integer(key, 0, static_cast<int64_t>(tokens.size()) - 1))
            config[name] = tokens[static_cast<size_t>(*id)];
    }
    if (const auto chat = file.text("tokenizer.chat_template")) config["chat_template"] = *chat;
    return json_text(config, 1);
}

std::shared_ptr<const ChatTemplate> gguf_chat_template(const GgufFile& file) {
    const auto source = file.text("tokenizer.chat_template");
    if (!source) return nullptr;
    const auto tokens = file.texts(tokens_key).value_or(std::vector<std::string_view>());
    const auto token = [&](const char* key) {
        const auto id =
            tokens.empty() ? std::nullopt : file.integer(key, 0, static_cast<int64_t>(tokens.size()) - 1);
        return id ? std::string(tokens[static_cast<size_t>(*id)]) : std::string();
    };
    return ChatTemplate::parse(*source, token("tokenizer.ggml.bos_token_id"),
                               token("tokenizer.ggml.eos_token_id"), file.name());
}

std::string gguf_tokenizer_digest(const GgufFile& file) {
    Digest digest;
    digest.add("gguf tokenizer");
    for (const auto& [key, value] : file.values()) {
        if (!key.starts_with("tokenizer.ggml.")) continue;
        digest.add(key);
        digest.add(static_cast<uint64_t>(value.kind));
        digest.add(static_cast<uint64_t>(value.element));
        digest.add(std::string_view(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()));
    }
    return digest.hex();
}

} // namespace refreshlab
