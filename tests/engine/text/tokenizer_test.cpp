#include "engine/text/chat_template.h"
#include "engine/text/prompt_text.h"
#include "engine/text/regex/regex.h"
#include "engine/text/tokenizer/normalizer.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "engine/text/utf8.h"
#include "tests/engine/text/text_fixture.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <set>
#include <thread>

namespace tokenizer_test {

using namespace refreshlab;
using namespace refreshlab::text_test;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::filesystem::path bundled =
    std::filesystem::path(RL_SOURCE_DIR) / "assets/models/llama-tales-teacher";

std::string shown(const std::string& text) {
    return visible_text(text, 300);
}

bool is_sentencepiece(const Tokenizer& tokenizer) {
    return tokenizer.id_of("<unk>").has_value();
}

/// The library reads the content of an added token of a byte-level model as bytes in disguise and so loses its letters
/// beyond ASCII; here they are kept.
bool is_garbled(const Tokenizer& tokenizer, int32_t id) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    return tokenizer.id_of(bytes) == id && static_cast<size_t>(count_code_points(bytes)) != bytes.size() &&
           !is_sentencepiece(tokenizer);
}

/// The text of a stream; every part of it is well-formed.
std::string stream(const std::shared_ptr<const Tokenizer>& tokenizer, const std::vector<int32_t>& ids,
                   bool skip) {
    TextStream text(tokenizer, skip);
    std::string joined;
    for (const int32_t id : ids) {
        const std::string part = text.push(id);
        REQUIRE_FALSE(first_invalid_utf8(part));
        joined += part;
    }
    return joined + text.finish();
}

nlohmann::json bundled_json() {
    return read_json_file(bundled / "tokenizer.json");
}

std::shared_ptr<const Tokenizer> load_json(const nlohmann::json& json) {
    static int number = 0;
    const auto folder = fresh_folder("tokenizer " + std::to_string(number++ % 4));
    write_file(folder / "tokenizer.json", json.dump());
    return Tokenizer::load(folder);
}

/// A byte-level model with the 256 bytes, "ab" and "abc".
nlohmann::json small_model() {
    nlohmann::json json = bundled_json();
    nlohmann::json vocab = nlohmann::json::object();
    int id = 0;
    const auto& old = json["model"]["vocab"];
    for (const auto& [piece, unused] : old.items()) {
        if (count_code_points(piece) == 1) vocab[piece] = id++;
    }
    vocab["ab"] = id++;
    vocab["abc"] = id++;
    json["model"]["vocab"] = vocab;
    json["model"]["merges"] = nlohmann::json::parse(R"([["a", "b"], ["ab", "c"]])");
    json["added_tokens"] = nlohmann::json::array();
    return json;
}

} // namespace

TEST_CASE("ids and texts are those of the tokenizers library", "[text][parity]") {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(references() / "ids")) {
        const std::string name = entry.path().filename().string();
        names.insert(name);
        const auto tokenizer = Tokenizer::load(entry.path());
        const nlohmann::json cases = read_json_file(entry.path() / "cases.json");
        INFO("variant " << name);
        const bool many = name == "bundled" || name.starts_with("family");
        REQUIRE(cases.size() >= (many ? 2200 : 380));
        for (const nlohmann::json& one : cases) {
            const auto text = one[0].get<std::string>();
            INFO("text " << shown(text));
            REQUIRE(tokenizer->encode(text) == one[1].get<std::vector<int32_t>>());
            const std::vector<int32_t> ids = tokenizer->encode(text, true);
            REQUIRE(ids == one[2].get<std::vector<int32_t>>());
            if (std::any_of(ids.begin(), ids.end(), [&](int32_t id) { return is_garbled(*tokenizer, id); }))
                continue;
            CHECK(stream(tokenizer, ids, true) == one[3].get<std::string>());
        }
    }
    REQUIRE(names.size() >= 40);
    for (const char* name :
         {"family GPT-2", "family Llama 3", "family Qwen 2", "family Qwen 3", "family Llama 2",
          "family Llama 2 without legacy", "family Mistral", "family Mistral 3"}) {
        INFO(name);
        REQUIRE(names.contains(name));
    }
}

TEST_CASE("a stream of any ids gives the text of the tokenizers library", "[text][parity]") {
    size_t compared = 0, replaced = 0;
    for (const auto& entry : std::filesystem::directory_iterator(references() / "ids")) {
        const auto tokenizer = Tokenizer::load(entry.path());
        INFO("variant " << entry.path().filename());
        for (const nlohmann::json& one : read_json_file(entry.path() / "decodes.json")) {
            const auto ids = one[0].get<std::vector<int32_t>>();
            const bool skip = one[1].get<bool>();
            if (std::any_of(ids.begin(), ids.end(), [&](int32_t id) { return is_garbled(*tokenizer, id); }))
                continue;
            INFO("ids " << one[0].dump() << ", special tokens skipped: " << skip);
            const auto wanted = one[2].get<std::string>();
            REQUIRE(stream(tokenizer, ids, skip) == wanted);
            Utf8Stream whole;
            std::string at_once = whole.push(tokenizer->decode(ids, skip));
            at_once += whole.finish();
            REQUIRE(at_once == wanted);
            ++compared;
            replaced += wanted.find("\uFFFD") != std::string::npos;
        }
    }
    CHECK(compared > 15'000);
    CHECK(replaced > 1000);
}

TEST_CASE("published folders give AutoTokenizer's ids, chats and texts", "[text][parity]") {
    size_t folders = 0, chats = 0, exact = 0, mixed = 0;
    for (const auto& entry : std::filesystem::directory_iterator(references() / "folders")) {
        INFO("folder " << entry.path().filename());
        const auto tokenizer = Tokenizer::load(entry.path());
        const auto chat = ChatTemplate::load(entry.path());
        const nlohmann::json answers = read_json_file(entry.path() / "auto.json");
        const TextRule rule = tokenizer->text_rule();
        const auto decodes_as = [&](const std::vector<int32_t>& ids, const std::string& wanted) {
            CHECK(stream(tokenizer, ids, true) == wanted);
            // From single tokens, as a trace has them: equal but where a run of byte tokens is partly well-formed.
            if (wanted.find("\uFFFD") == std::string::npos || !rule.byte_fallback) {
                CHECK(joined_text(*tokenizer, rule, ids) == wanted);
                ++exact;
            } else {
                ++mixed;
            }
        };
        for (const nlohmann::json& one : answers.at("texts")) {
            const auto text = one[0].get<std::string>();
            INFO("text " << shown(text));
            REQUIRE(tokenizer->encode(text) == one[1].get<std::vector<int32_t>>());
            const std::vector<int32_t> ids = tokenizer->encode(text, true);
            REQUIRE(ids == one[2].get<std::vector<int32_t>>());
            decodes_as(ids, one[3].get<std::string>());
        }
        for (const nlohmann::json& one : answers.at("decodes")) {
            INFO("ids " << one[0].dump());
            decodes_as(one[0].get<std::vector<int32_t>>(), one[1].get<std::string>());
        }
        CHECK(answers.at("chats").empty() == (chat == nullptr));
        for (const nlohmann::json& one : answers.at("chats")) {
            std::vector<ChatMessage> messages;
            for (const nlohmann::json& message : one[0])
                messages.push_back({message.at("role"), message.at("content")});
            const PromptText made = prompt_text(*tokenizer, chat.get(), messages);
            CHECK(made.text == one[1].get<std::string>());
            CHECK(made.ids == one[2].get<std::vector<int32_t>>());
            ++chats;
        }
        ++folders;
    }
    CHECK(folders == 11);
    CHECK(chats == 18);
    CHECK(exact > 4000);
    CHECK(mixed < exact);
}

TEST_CASE("decoding gives back every text that is not normalised, added tokens included", "[text]") {
    for (const char* name : {"bundled", "llama3", "o200k"}) {
        const auto tokenizer = Tokenizer::load(references() / "ids" / name);
        for (const nlohmann::json& one : read_json_file(references() / "ids" / name / "cases.json")) {
            const auto text = one[0].get<std::string>();
            REQUIRE(tokenizer->decode(tokenizer->encode(text), false) == text);
        }
    }
    const auto accented = Tokenizer::load(references() / "ids" / "qwen");
    const auto id = accented->id_of("caf\u00e9");
    REQUIRE(id);
    CHECK(accented->decode(std::vector<int32_t>{*id}) == "caf\u00e9");
}

TEST_CASE("character classes match what Oniguruma with Unicode 16 matches", "[text][parity]") {
    const nlohmann::json classes = read_json_file(references() / "classes.json");
    REQUIRE(classes.size() > 30);
    for (const auto& [pattern, ranges] : classes.items()) {
        std::set<char32_t> wanted, found;
        for (const nlohmann::json& range : ranges) {
            for (auto c = range[0].get<char32_t>(); c <= range[1].get<char32_t>(); ++c) {
                if (c < 0xD800 || c > 0xDFFF) wanted.insert(c);
            }
        }
        const Regex regex(pattern, "this test");
        for (char32_t start = 0; start < 0xE1000; start = start + 4096 == 0x40000 ? 0xE0000 : start + 4096) {
            std::string text;
            for (char32_t c = start; c < start + 4096; ++c) {
                if (c < 0xD800 || c > 0xDFFF) append_utf8(text, c);
            }
            Regex::Matches matches(regex, text);
            while (const auto match = matches.next()) {
                for (size_t at = match->begin; at < match->end; at += utf8_step(text, at).length) {
                    found.insert(utf8_step(text, at).code_point);
                }
            }
        }
        INFO("pattern " << pattern);
        std::vector<char32_t> differing;
        std::set_symmetric_difference(wanted.begin(), wanted.end(), found.begin(), found.end(),
                                      std::back_inserter(differing));
        CHECK(differing.empty());
    }
}

TEST_CASE("very long text without spaces is tokenized in bounded work", "[text]") {
    // Quadratic merging would need 10^12 steps here, quadratic matching as many.
    const auto tokenizer = Tokenizer::load(bundled);
    const size_t length = 1'000'000;
    for (const char* piece : {"a", "ab", " ", "\n", "!", "\u00e9", "\u4f60", "the"}) {
        std::string text;
        while (text.size() < length)
            text += piece;
        const std::vector<int32_t> ids = tokenizer->encode(text);
        CHECK(tokenizer->decode(ids) == text);
        CHECK(ids.size() <= text.size());
    }
    CHECK(tokenizer->decode(tokenizer->encode(std::string(length, ' ') + "x")) ==
          std::string(length, ' ') + "x");
}

TEST_CASE("a pattern that backtracks without end is an error, never a hang or a wrong id", "[text]") {
    nlohmann::json json = bundled_json();
    json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(?:a|aa)+(?=[^a])";
    const auto tokenizer = load_json(json);
    const std::string message = message_of([&] { (void)tokenizer->encode(std::string(3000, 'a')); });
    CHECK_THAT(message, ContainsSubstring("limit"));
}

TEST_CASE("encoding from several threads gives the same ids", "[text]") {
    const auto tokenizer = Tokenizer::load(bundled);
    const std::string text =
        read_file(std::filesystem::path(RL_SOURCE_DIR) / "assets/prompts/mt_bench.jsonl");
    const std::vector<int32_t> alone = tokenizer->encode(text);
    std::vector<std::vector<int32_t>> together(4);
    std::vector<std::thread> threads;
    for (auto& ids : together)
        threads.emplace_back([&] { ids = tokenizer->encode(text); });
    for (std::thread& thread : threads)
        thread.join();
    for (const auto& ids : together)
        CHECK(ids == alone);
}

TEST_CASE("teacher and student of the bundled pair have one fingerprint", "[text]") {
    const auto student = Tokenizer::load(bundled.parent_path() / "llama-tales-student");
    const auto teacher = Tokenizer::load(bundled);
    CHECK(teacher->fingerprint() == student->fingerprint());
    CHECK(teacher->fingerprint().size() == 32);
    CHECK(teacher->vocab_size() == 4096);
    CHECK(teacher->id_of("<|end|>") == 1);
    CHECK(teacher->is_special(1));
    CHECK_FALSE(teacher->is_special(100));
    CHECK_FALSE(teacher->id_of("the"));
    CHECK(teacher->token_bytes(-1).empty());
    CHECK(teacher->token_bytes(4096).empty());
    CHECK(teacher->decode(std::vector<int32_t>{0, 1}).empty());
    CHECK(teacher->decode(std::vector<int32_t>{0, 1}, false) == "<|begin|><|end|>");
}

TEST_CASE("the fingerprint tells apart whatever changes ids, and nothing else", "[text]") {
    const nlohmann::json original = small_model();
    std::set<std::string> seen = {load_json(original)->fingerprint()};
    const auto changed = [&](const char* what, const auto& change) {
        nlohmann::json json = original;
        change(json);
        INFO(what);
        CHECK(seen.insert(load_json(json)->fingerprint()).second);
    };
    changed("order of merges", [](auto& json) {
        json["model"]["merges"] = nlohmann::json::parse(R"([["ab", "c"], ["a", "b"]])");
    });
    changed("a merge less",
            [](auto& json) { json["model"]["merges"] = nlohmann::json::parse(R"([["a", "b"]])"); });
    changed("ids",
            [](auto& json) { std::swap(json["model"]["vocab"]["ab"], json["model"]["vocab"]["abc"]); });
    changed("ignore_merges", [](auto& json) { json["model"]["ignore_merges"] = true; });
    changed("normalizer", [](auto& json) { json["normalizer"] = {{"type", "NFC"}}; });
    changed("pre-tokenizer",
            [](auto& json) { json["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; });
    changed("added token", [](auto& json) {
        json["added_tokens"].push_back({{"id", 258}, {"content", "<x>"}, {"special", true}});
    });
    changed("its flags", [](auto& json) {
        json["added_tokens"].push_back(
            {{"id", 258}, {"content", "<x>"}, {"special", true}, {"lstrip", true}});
    });
    nlohmann::json same = original;
    same["decoder"] = nullptr;
    same["model"]["merges"] =
        nlohmann::json::parse(R"(["a b", "ab c"])"); // the older spelling of the same merges
    CHECK(seen.contains(load_json(same)->fingerprint()));
}

TEST_CASE("text that is not UTF-8 is refused with the place of the first wrong byte", "[text]") {
    const auto tokenizer = Tokenizer::load(bundled);
    CHECK_THAT(message_of([&] { (void)tokenizer->encode("abc\xC3(d"); }),
               ContainsSubstring("not UTF-8 at byte 3"));
    CHECK_THAT(message_of([&] { (void)tokenizer->encode("\xED\xA0\x80"); }), ContainsSubstring("byte 0"));
}

TEST_CASE("a tokenizer.json that cannot be used is refused with its place and what is wrong", "[text]") {
    struct Wrong {
        const char* change; ///< a JSON merge patch
        const char* message;
    };
    const Wrong wrongs[] = {
        {R"({"model": {"merges": null}})",
         "model: merges missing; is this a SentencePiece model that was not converted?"},
        {R"({"model": {"merges": 3}})", "model.merges: an array expected, number found"},
        {R"({"model": {"merges": [["a", "zz"]]}})", "merge 0 names \"zz\", which is not in the vocabulary"},
        {R"({"model": {"merges": [["a", "b"], ["a", "d"]]}})", "merge 1 names \"ad\""},
        {R"({"model": {"merges": ["a b c"]}})", "not two pieces"},
        {R"({"model": {"merges": [7]}})", "merge 0 is neither"},
        {R"({"model": {"vocab": {"ab": -1}}})", "whole number"},
        {R"({"model": {"vocab": {"ab": 1.5}}})", "whole number"},
        {R"({"model": {"vocab": {"ab": 99999999999}}})", "whole number"},
        {R"({"model": {"vocab": {"ab": 257}}})", "id 257 is given to two pieces"},
        {R"({"model": {"vocab": null}})", "model.vocab: missing"},
        {R"({"model": {"type": "Unigram"}})", "Unigram is not supported; supported are byte-level BPE"},
        {R"({"model": {"type": "WordPiece"}})", "WordPiece is not supported"},
        {R"({"model": {"byte_fallback": true, "vocab": {"!": null}}})",
         "model.byte_fallback: not supported in a byte-level model that lacks bytes"},
        {R"({"model": {"dropout": 0.1}})", "dropout"},
        {R"({"model": {"end_of_word_suffix": "</w>"}})", "end_of_word_suffix"},
        {R"({"model": null})", "model: missing"},
        {R"({"normalizer": {"type": "BertNormalizer"}})", "normalizer BertNormalizer is not supported"},
        {R"({"pre_tokenizer": null})",
         "decoder.type: ByteLevel without a pre-tokenizer ByteLevel is not supported"},
        {R"({"pre_tokenizer": {"type": "Digits"}, "decoder": null})", "decoder: missing"},
        {R"({"pre_tokenizer": {"type": "Metaspace"}})", "pre_tokenizer.replacement: missing"},
        {R"({"pre_tokenizer": {"type": "Metaspace", "replacement": "ab"}})",
         "one character expected, \"ab\" found"},
        {R"({"pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "sometimes"}})",
         "prepend_scheme: sometimes is not known; known are never, first and always"},
        {R"({"pre_tokenizer": {"type": "Metaspace", "replacement": "_", "add_prefix_space": false}})",
         "add_prefix_space: false does not go with prepend_scheme always"},
        {R"({"pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"},
             "normalizer": {"type": "Prepend", "prepend": "_"}})",
         "Metaspace with prepend_scheme first after a normalizer"},
        {R"({"pre_tokenizer": {"type": "WhitespaceSplit"}})",
         "pre-tokenizer WhitespaceSplit is not supported; supported are ByteLevel, Split, Digits, Metaspace "
         "and Sequence"},
        {R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "behavior": "Isolated",
             "pattern": {"Regex": "(a"}}]}})",
         "regular expression \"(a\""},
        {R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "behavior": "Sideways",
             "pattern": {"Regex": "a"}}]}})",
         "Sideways is not known"},
        {R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "behavior": "Isolated",
             "pattern": {"Regex": "[a&&b]"}}]}})",
         "intersection"},
        {R"({"post_processor": {"type": "RobertaProcessing"}})",
         "post-processor RobertaProcessing is not supported"},
        {R"({"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}}],
             "special_tokens": {"x": {"ids": [258]}}}})",
         "ids from 0 to 257 expected"},
        {R"({"decoder": {"type": "WordPiece"}})",
         "decoder WordPiece is not supported; supported are ByteLevel alone"},
        {R"({"decoder": {"type": "Fuse"}})",
         "decoder Fuse is not supported in a byte-level model; ByteLevel is"},
        {R"({"pre_tokenizer": null, "decoder": {"type": "Sequence", "decoders": [{"type": "Fuse"},
             {"type": "ByteFallback"}]}})",
         "decoder.decoders[1].type: decoder ByteFallback after ByteFallback or Fuse is not supported"},
        {R"({"pre_tokenizer": null, "decoder": {"type": "Strip", "content": " ", "start": 0, "stop": 1}})",
         "decoder.stop: only 0 is supported"},
        {R"({"pre_tokenizer": null, "decoder": {"type": "Strip", "content": "  ", "start": 0, "stop": 0}})",
         "one character expected"},
        {R"({"pre_tokenizer": null, "decoder": {"type": "Fuse"}, "model": {"unk_token": "<unk>"}})",
         "unk_token: \"<unk>\" is not in the vocabulary"},
        {R"({"added_tokens": [{"id": 300, "content": "<x>"}]})", "its place in the vocabulary gives 258"},
        {R"({"added_tokens": [{"id": 258, "content": "<x>"}, {"id": 259, "content": "<x>"}]})",
         "listed twice"},
        {R"({"added_tokens": [{"id": 258, "content": ""}]})", "added_tokens[0].content: empty"},
        {R"({"added_tokens": [{"content": "<x>"}]})", "added_tokens[0].id"},
        {R"({"added_tokens": [5]})", "added_tokens[0]: an object expected"},
    };
    for (const Wrong& wrong : wrongs) {
        nlohmann::json json = small_model();
        json.merge_patch(nlohmann::json::parse(wrong.change));
        INFO(wrong.change);
        const std::string message = message_of([&] { (void)load_json(json); });
        CHECK_THAT(message, ContainsSubstring(wrong.message));
        CHECK_THAT(message, ContainsSubstring("tokenizer.json of"));
    }
}

TEST_CASE("a truncated tokenizer.json is refused with line and column", "[text]") {
    const auto folder = fresh_folder("truncated");
    const std::string text = read_file(bundled / "tokenizer.json");
    write_file(folder / "tokenizer.json", text.substr(0, text.size() / 2));
    CHECK_THAT(message_of([&] { (void)Tokenizer::load(folder); }), ContainsSubstring("line ") &&
                                                                       ContainsSubstring("column ") &&
                                                                       ContainsSubstring("tokenizer.json"));
    CHECK_THAT(message_of([&] { (void)Tokenizer::load(folder / "missing"); }),
               ContainsSubstring("No such file"));
    const auto sentencepiece = fresh_folder("sentencepiece");
    write_file(sentencepiece / "tokenizer.model", "x");
    CHECK_THAT(message_of([&] { (void)Tokenizer::load(sentencepiece); }),
               ContainsSubstring("tokenizer.model") && ContainsSubstring("transformers"));
}

TEST_CASE("damaged tokenizer files load or are refused, and what loads encodes", "[text][mutation]") {
    Random random(test::seed(3));
    const std::string original = small_model().dump(1);
    const auto folder = fresh_folder("damaged");
    size_t loaded = 0, refused = 0;
    for (int round = 0; round < 1500; ++round) {
        const std::string text = mutated(original, random);
        INFO("round " << round);
        std::ofstream(folder / "tokenizer.json", std::ios::binary) << text; // write_file waits for the disk
        try {
            const auto tokenizer = Tokenizer::load(folder);
            ++loaded;
            for (const char* sample : {"abc cab  \u00e9\n 123", "<x>", ""}) {
                for (const int32_t id : tokenizer->encode(sample, true)) {
                    REQUIRE(id >= 0);
                    REQUIRE(id < tokenizer->vocab_size());
                }
            }
        } catch (const Error&) { // anything else fails the test
            ++refused;
        }
    }
    CHECK(loaded > 0);
    CHECK(refused > 500);
}

} // namespace tokenizer_test
