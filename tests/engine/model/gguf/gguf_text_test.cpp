// Tokenizers and templates out of metadata.
#include "engine/model/gguf/gguf_text.h"
#include "engine/model/model_source.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "engine/text/utf8.h"
#include "tests/engine/model/gguf/gguf_support.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <set>

namespace gguf_text_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::shared_ptr<const Tokenizer> tokenizer_of(const GgufWriter& writer) {
    const std::string bytes = writer.bytes();
    return gguf_tokenizer(parse_gguf(bytes));
}

template <typename Change>
std::string refused(const Change& change, GgufWriter writer = tiny_gguf()) {
    change(writer);
    return error_of([&] { (void)tokenizer_of(writer); });
}

/// SentencePiece: unknown, begin, end, the bytes that count here, and pieces with scores.
GgufWriter scored_gguf() {
    GgufWriter file = tiny_gguf();
    file.remove("tokenizer.ggml.merges").remove("tokenizer.ggml.pre").text("tokenizer.ggml.model", "llama");
    file.texts("tokenizer.ggml.tokens",
               {"<unk>", "<s>", "</s>", "<0x0A>", "\u2581", "a", "b", "ab", "\u2581a", "\u2581ab"});
    file.numbers("tokenizer.ggml.token_type", {2, 3, 3, 6, 1, 1, 1, 1, 1, 1});
    file.reals("tokenizer.ggml.scores", {0, 0, 0, 0, -4, -5, -6, -1, -2, -3});
    file.number("tokenizer.ggml.bos_token_id", 1).number("tokenizer.ggml.eos_token_id", 2);
    return file;
}

} // namespace

TEST_CASE("tokenizers from metadata give the ids of the tokenizers library and pair with a tokenizer.json",
          "[gguf][parity]") {
    size_t compared = 0;
    for (const auto& entry : gguf_manifest().at("ids")) {
        const auto name = entry.get<std::string>();
        INFO(name);
        const auto folder = gguf_references() / "ids" / name;
        const GgufFile file = GgufFile::open(folder / "model.gguf");
        const auto ours = gguf_tokenizer(file);
        const auto theirs = Tokenizer::load(folder);
        CHECK(ours->fingerprint() == theirs->fingerprint());
        CHECK(ours->vocab_size() == theirs->vocab_size());
        CHECK(ours->text_rule() == theirs->text_rule());
        for (int32_t id = 0; id < ours->vocab_size(); ++id) {
            REQUIRE(ours->token_bytes(id) == theirs->token_bytes(id));
            REQUIRE(ours->is_special(id) == theirs->is_special(id));
        }
        for (const nlohmann::json& one : read_json_file(folder / "cases.json")) {
            const auto text = one[0].get<std::string>();
            INFO("text " << visible_text(text, 300));
            REQUIRE(ours->encode(text) == one[1].get<std::vector<int32_t>>());
            const std::vector<int32_t> ids = ours->encode(text, true);
            REQUIRE(ids == one[2].get<std::vector<int32_t>>());
            CHECK(ours->decode(ids) == theirs->decode(ids));
            ++compared;
        }
        CHECK(gguf_tokenizer_digest(file).size() == 32);
    }
    CHECK(compared > 4000);
}

TEST_CASE("each name of tokenizer.ggml.pre cuts text as its own kind", "[gguf]") {
    const auto cut = [](const char* pre) {
        GgufWriter writer = tiny_gguf();
        writer.text("tokenizer.ggml.pre", pre);
        return tokenizer_of(writer)->fingerprint();
    };
    const std::string gpt2 = cut("gpt-2"), digits = cut("smollm"), llama = cut("llama-bpe"),
                      qwen = cut("qwen2");
    CHECK(std::set<std::string>{gpt2, digits, llama, qwen, cut("tekken"), cut("qwen35"), cut("dbrx"),
                                cut("gpt-4o")}
              .size() == 8);
    for (const char* same : {"phi-2", "mpt", "olmo", "jais"})
        CHECK(cut(same) == gpt2);
    for (const char* same : {"starcoder", "refact", "command-r"})
        CHECK(cut(same) == digits);
    for (const char* same : {"llama3", "llama-v3", "falcon3", "pixtral"})
        CHECK(cut(same) == llama);
    for (const char* same : {"deepseek-r1-qwen", "megrez", "stablelm2"})
        CHECK(cut(same) == qwen);
}

TEST_CASE("begin and end tokens are added as the metadata say, or as the family does", "[gguf]") {
    const auto ids = [](GgufWriter writer) { return tokenizer_of(writer)->encode("a", true); };
    CHECK(ids(tiny_gguf()) == std::vector<int32_t>{3});
    CHECK(ids(tiny_gguf().text("tokenizer.ggml.pre", "llama-bpe")) == std::vector<int32_t>{0, 3});
    CHECK(ids(tiny_gguf()
                  .text("tokenizer.ggml.pre", "llama-bpe")
                  .flag("tokenizer.ggml.add_bos_token", false)) == std::vector<int32_t>{3});
    CHECK(ids(tiny_gguf()
                  .flag("tokenizer.ggml.add_bos_token", true)
                  .flag("tokenizer.ggml.add_eos_token", true)) == std::vector<int32_t>{0, 3, 1});
    CHECK(ids(scored_gguf()) == std::vector<int32_t>{1, 8});
    CHECK(ids(scored_gguf().flag("tokenizer.ggml.add_space_prefix", false)) == std::vector<int32_t>{1, 5});
    CHECK(ids(scored_gguf().flag("tokenizer.ggml.add_bos_token", false)) == std::vector<int32_t>{8});
    const auto tokenizer = tokenizer_of(tiny_gguf());
    CHECK(tokenizer->is_special(0));
    CHECK_FALSE(tokenizer->is_special(2)); // user-defined: cut out, and not hidden
    CHECK(tokenizer->encode("ab<x> abc<s>") == std::vector<int32_t>{7, 2, 6, 8, 0});
    CHECK(tokenizer->decode(std::vector<int32_t>{7, 2, 0, 9}) == "ab<x> a");
}

TEST_CASE("SentencePiece merges by score and falls back on bytes", "[gguf]") {
    const auto tokenizer = tokenizer_of(scored_gguf());
    CHECK(tokenizer->encode("ab") == std::vector<int32_t>{9});
    CHECK(tokenizer->encode("ab\nb") == std::vector<int32_t>{9, 3, 6});
    CHECK(tokenizer->encode("</s>z") == std::vector<int32_t>{2, 4, 0}); // no piece, no bytes: unknown
    // "ab" has the better score, then "\u2581ab" is made of "\u2581" and "ab"; the other way round "\u2581a" wins and b stays.
    GgufWriter other = scored_gguf();
    other.reals("tokenizer.ggml.scores", {0, 0, 0, 0, -4, -5, -6, -3, -1, -9});
    other.texts("tokenizer.ggml.tokens",
                {"<unk>", "<s>", "</s>", "<0x0A>", "\u2581", "a", "b", "ab", "\u2581a", "ba"});
    CHECK(tokenizer_of(other)->encode("ab") == std::vector<int32_t>{8, 6});
}

TEST_CASE("merges that scores do not order have one fingerprint in every order", "[gguf]") {
    const auto fingerprint = [](const std::vector<std::pair<std::string, std::string>>& merges) {
        nlohmann::json document = nlohmann::json::parse(
            R"({"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "_"},
                "decoder": {"type": "Fuse"}, "model": {"type": "BPE", "vocab": {"_": 0, "a": 1, "b": 2, "ab": 3, "aba": 4,
                "ba": 5, "__": 6, "___": 7}, "merges": []}})");
        for (const auto& [left, right] : merges)
            document["model"]["merges"].push_back({left, right});
        return Tokenizer::make(document, "reading", "a test")->fingerprint();
    };
    const std::string one =
        fingerprint({{"a", "b"}, {"b", "a"}, {"ab", "a"}, {"a", "ba"}, {"_", "_"}, {"__", "_"}, {"_", "__"}});
    CHECK(fingerprint(
              {{"a", "b"}, {"b", "a"}, {"a", "ba"}, {"ab", "a"}, {"__", "_"}, {"_", "__"}, {"_", "_"}}) ==
          one);
    CHECK(fingerprint(
              {{"b", "a"}, {"a", "b"}, {"ab", "a"}, {"a", "ba"}, {"_", "_"}, {"__", "_"}, {"_", "__"}}) !=
          one);
    CHECK(fingerprint(
              {{"a", "b"}, {"b", "a"}, {"_", "_"}, {"ab", "a"}, {"a", "ba"}, {"__", "_"}, {"_", "__"}}) !=
          one);
    CHECK(fingerprint({{"a", "b"}, {"b", "a"}, {"ab", "a"}, {"a", "ba"}, {"_", "_"}, {"__", "_"}}) != one);
}

TEST_CASE("a vocabulary that cannot be used is refused by key", "[gguf]") {
    CHECK_THAT(refused([](auto& w) { w.remove("tokenizer.ggml.model"); }),
               ContainsSubstring("key tokenizer.ggml.model is missing"));
    CHECK_THAT(refused([](auto& w) { w.text("tokenizer.ggml.model", "t5"); }),
               ContainsSubstring("key tokenizer.ggml.model is t5, which is not supported"));
    CHECK_THAT(refused([](auto& w) { w.remove("tokenizer.ggml.pre"); }),
               ContainsSubstring("key tokenizer.ggml.pre is missing"));
    CHECK_THAT(refused([](auto& w) { w.text("tokenizer.ggml.pre", "deepseek-v3"); }),
               ContainsSubstring("key tokenizer.ggml.pre is deepseek-v3, which is not supported") &&
                   ContainsSubstring("smollm"));
    CHECK_THAT(refused([](auto& w) { w.remove("tokenizer.ggml.tokens"); }),
               ContainsSubstring("key tokenizer.ggml.tokens is missing"));
    CHECK_THAT(refused([](auto& w) { w.texts("tokenizer.ggml.tokens", {}); }),
               ContainsSubstring("key tokenizer.ggml.tokens has 0 tokens"));
    CHECK_THAT(refused([](auto& w) {
                   w.texts("tokenizer.ggml.tokens", {"a", "b", "a", "c", "d", "e", "f", "g", "h", "i"});
               }),
               ContainsSubstring("gives \"a\" to tokens 0 and 2"));
    CHECK_THAT(refused([](auto& w) {
                   w.texts("tokenizer.ggml.tokens", {"a", "\xFF"});
               }),
               ContainsSubstring("element 1 that is not UTF-8"));
    CHECK_THAT(refused([](auto& w) {
                   w.numbers("tokenizer.ggml.token_type", {1, 1});
               }),
               ContainsSubstring("token_type has 2 entries for 10 tokens"));
    CHECK_THAT(refused([](auto& w) {
                   w.numbers("tokenizer.ggml.token_type", {7, 3, 4, 1, 1, 1, 1, 1, 1, 1});
               }),
               ContainsSubstring("says 7 of token 0"));
    CHECK_THAT(refused([](auto& w) { w.remove("tokenizer.ggml.merges"); }),
               ContainsSubstring("key tokenizer.ggml.merges is missing"));
    for (const char* merge : {"ab", "a ", "", " ", "  ", "a"})
        CHECK_THAT(refused([&](auto& w) { w.texts("tokenizer.ggml.merges", {merge}); }),
                   ContainsSubstring("is not two pieces"));
    CHECK_THAT(refused([](auto& w) { w.texts("tokenizer.ggml.merges", {"a zz"}); }),
               ContainsSubstring("names \"zz\", which is no token"));
    CHECK_THAT(refused([](auto& w) { w.texts("tokenizer.ggml.merges", {"a c"}); }),
               ContainsSubstring("names \"ac\", which is no token"));
    CHECK_THAT(refused([](auto& w) {
                   w.flag("tokenizer.ggml.add_bos_token", true).remove("tokenizer.ggml.bos_token_id");
               }),
               ContainsSubstring("key tokenizer.ggml.bos_token_id is missing"));
    CHECK_THAT(refused([](auto& w) { w.remove("tokenizer.ggml.scores"); }, scored_gguf()),
               ContainsSubstring("key tokenizer.ggml.scores is missing"));
    CHECK_THAT(refused([](auto& w) { w.reals("tokenizer.ggml.scores", {0}); }, scored_gguf()),
               ContainsSubstring("scores has 1 entries for 10 tokens"));
    CHECK_THAT(refused(
                   [](auto& w) {
                       w.reals("tokenizer.ggml.scores", {0, 0, 0, 0, -4, -5, -6, std::nanf(""), -2, -3});
                   },
                   scored_gguf()),
               ContainsSubstring("scores says nan of token 7"));
    CHECK_THAT(refused(
                   [](auto& w) {
                       w.texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "<0x0A>", "\u2581", "a", "b",
                                                         std::string(600, 'x'), "c", "d"});
                   },
                   scored_gguf()),
               ContainsSubstring("has a token 7 of 600 bytes"));
}

TEST_CASE("unused tokens are no part of the vocabulary", "[gguf]") {
    GgufWriter writer = tiny_gguf();
    const std::string before = tokenizer_of(writer)->fingerprint();
    writer.texts("tokenizer.ggml.tokens", {"<s>", "</s>", "<x>", "a", "b", "c", "\u0120", "ab", "abc",
                                           "\u0120a", "[PAD10]", "[PAD10]"});
    writer.numbers("tokenizer.ggml.token_type", {3, 3, 4, 1, 1, 1, 1, 1, 1, 1, 5, 5});
    CHECK(tokenizer_of(writer)->fingerprint() == before);
    CHECK(tokenizer_of(writer)->vocab_size() == 10);
}

TEST_CASE("a GGUF file brings its chat template and the tokens that it names", "[gguf]") {
    GgufWriter writer = tiny_gguf();
    const std::string without = writer.bytes();
    CHECK(gguf_chat_template(parse_gguf(without)) == nullptr);
    const std::string with =
        writer.text("tokenizer.chat_template", "{{ bos_token }}{{ messages[0]['content'] }}{{ eos_token }}")
            .bytes();
    CHECK(gguf_chat_template(parse_gguf(with))->render({{"user", "hi"}}) == "<s>hi</s>");
    const std::string broken = writer.text("tokenizer.chat_template", "{% if %}").bytes();
    CHECK_THAT(error_of([&] { (void)gguf_chat_template(parse_gguf(broken)); }),
               ContainsSubstring("chat template") && ContainsSubstring("tiny.gguf"));
}

TEST_CASE("files with one vocabulary have one digest, whatever else is in them", "[gguf]") {
    const auto digest = [](const GgufWriter& writer) {
        const std::string bytes = writer.bytes();
        return gguf_tokenizer_digest(parse_gguf(bytes));
    };
    const std::string plain = digest(tiny_gguf());
    CHECK(digest(tiny_gguf().number("llama.context_length", 99).text("general.name", "x")) == plain);
    CHECK(digest(tiny_gguf().text("tokenizer.ggml.pre", "smollm")) != plain);
    CHECK(digest(tiny_gguf().flag("tokenizer.ggml.add_bos_token", false)) != plain);
    CHECK(digest(tiny_gguf().texts("tokenizer.ggml.merges", {"a b"})) != plain);
}

} // namespace gguf_text_test
