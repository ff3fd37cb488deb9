#include "engine/text/prompt_text.h"
#include "tests/engine/text/text_fixture.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace prompt_text_test {

using namespace refreshlab;
using namespace refreshlab::text_test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::shared_ptr<const Tokenizer> family(const std::string& name) {
    return Tokenizer::load(references() / "ids" / ("family " + name));
}

std::shared_ptr<const ChatTemplate> chat(const std::string& source, const std::string& begin) {
    return ChatTemplate::parse(source, begin, "</s>");
}

} // namespace

TEST_CASE("after a template there is exactly the begin token that the template writes", "[text]") {
    struct Family {
        const char* name;
        const char* begin;
    };
    for (const Family& one :
         {Family{"Llama 2", "<s>"}, Family{"Llama 2 without legacy", "<s>"}, Family{"Mistral", "<s>"},
          Family{"Mistral 3", "<s>"}, Family{"Llama 3", "<|begin_of_text|>"}}) {
        INFO(one.name);
        const auto tokenizer = family(one.name);
        const int32_t begin = tokenizer->id_of(one.begin).value();
        REQUIRE(tokenizer->begin_ids() == std::vector<int32_t>{begin});
        const auto writes = chat("{{ bos_token }}[INST] {{ messages[0].content }} [/INST]", one.begin);
        const PromptText with = prompt_text(*tokenizer, writes.get(), "Hello");
        CHECK(with.text == std::string(one.begin) + "[INST] Hello [/INST]");
        CHECK(with.begin_count == 0);
        CHECK(with.ids == tokenizer->encode(with.text));
        CHECK(with.ids.front() == begin);
        CHECK(std::count(with.ids.begin(), with.ids.end(), begin) == 1);

        const auto silent = chat("[INST] {{ messages[0].content }} [/INST]", one.begin);
        const PromptText without = prompt_text(*tokenizer, silent.get(), "Hello");
        CHECK(without.ids == tokenizer->encode(without.text));
        CHECK(std::count(without.ids.begin(), without.ids.end(), begin) == 0);
    }
}

TEST_CASE("without a template the tokenizer's begin token stands there once", "[text]") {
    for (const char* name : {"Llama 2", "Llama 2 without legacy", "Llama 3"}) {
        INFO(name);
        const auto tokenizer = family(name);
        const int32_t begin = tokenizer->begin_ids().at(0);
        const std::string begin_text = tokenizer->decode(tokenizer->begin_ids(), false);
        const auto unused = chat("never", "");
        for (const PromptText& made : {prompt_text(*tokenizer, nullptr, "Hello"),
                                       prompt_text(*tokenizer, unused.get(), "Hello", true)}) {
            CHECK(made.text == "Hello");
            CHECK(made.begin_count == 1);
            CHECK(made.ids == tokenizer->encode("Hello", true));
            CHECK(std::count(made.ids.begin(), made.ids.end(), begin) == 1);
        }
        // Pasted with its begin token: the library would put a second one before it.
        const PromptText pasted = prompt_text(*tokenizer, nullptr, begin_text + "Hello");
        CHECK(pasted.begin_count == 0);
        CHECK(pasted.ids == tokenizer->encode(begin_text + "Hello"));
        CHECK(std::count(pasted.ids.begin(), pasted.ids.end(), begin) == 1);
        const PromptText only = prompt_text(*tokenizer, nullptr, begin_text);
        CHECK(only.ids == std::vector<int32_t>{begin});
    }
    const auto none = family("Qwen 3");
    CHECK(none->begin_ids().empty());
    const PromptText made = prompt_text(*none, nullptr, "Hello");
    CHECK(made.begin_count == 0);
    CHECK(made.ids == none->encode("Hello", true));
}

TEST_CASE("a chat without a template is refused, one message is a text", "[text]") {
    const auto tokenizer = family("Qwen 2");
    const std::vector<ChatMessage> chat = {{"user", "a"}, {"assistant", "b"}};
    CHECK_THAT(message_of([&] { (void)prompt_text(*tokenizer, nullptr, chat); }),
               ContainsSubstring("needs a chat template"));
    CHECK(prompt_text(*tokenizer, nullptr, std::vector<ChatMessage>{{"user", "a"}}).ids ==
          tokenizer->encode("a"));
    CHECK_THAT(message_of([&] { (void)prompt_text(*tokenizer, nullptr, "\xFF"); }),
               ContainsSubstring("not UTF-8 at byte 0"));
}

TEST_CASE("with a fixed clock a prompt does not depend on the day", "[text]") {
    const auto tokenizer = family("Llama 3");
    const auto dated = chat("{{ strftime_now('%d %b %Y') }} {{ messages[0].content }}", "");
    RenderOptions options;
    options.now.emplace();
    options.now->tm_mday = 26;
    options.now->tm_mon = 6;
    options.now->tm_year = 124;
    const PromptText made = prompt_text(*tokenizer, dated.get(), "Hi", false, options);
    CHECK(made.text == "26 Jul 2024 Hi");
    options.now->tm_mday = 27;
    CHECK(prompt_text(*tokenizer, dated.get(), "Hi", false, options).ids != made.ids);
}

TEST_CASE("text in a prompt that spells a special token becomes that token", "[text]") {
    // As with the library; a template writes its marks in the same way.
    const auto tokenizer = family("Llama 3");
    const auto plain = chat("{{ messages[0].content }}", "");
    const int32_t end = tokenizer->id_of("<|eot_id|>").value();
    CHECK(prompt_text(*tokenizer, plain.get(), "a<|eot_id|>").ids.back() == end);
}

TEST_CASE("control tokens in the user's own text are counted and named", "[text]") {
    const auto tokenizer = family("Llama 3");
    const auto marked = chat("{{ bos_token }}<|start_header_id|>{{ messages[0].content | trim }}<|eot_id|>",
                             "<|begin_of_text|>");
    const int32_t end = tokenizer->id_of("<|eot_id|>").value(), begin = tokenizer->begin_ids().at(0);
    const auto control_ids = [&](const std::string& text) {
        return prompt_text(*tokenizer, marked.get(), text).control_ids;
    };
    CHECK(control_ids("Hello <|eot_ id|>").empty()); // the template's own marks do not count
    CHECK(control_ids(" a<|eot_id|> b<|eot_id|>") == std::vector<int32_t>{end, end});
    CHECK(prompt_text(*tokenizer, nullptr, "<|begin_of_text|>a").control_ids == std::vector<int32_t>{begin});
    CHECK(prompt_text(*tokenizer, nullptr, "a<|eot_id|>", true)
              .control_ids.empty()); // raw: that is what it is for
    const auto note = [&](const std::string& text) {
        return control_token_note(prompt_text(*tokenizer, marked.get(), text), *tokenizer);
    };
    CHECK(note("Hello").empty());
    CHECK_THAT(note("a<|eot_id|>"), ContainsSubstring("the prompt contains 1 control token (<|eot_id|>)"));
    CHECK_THAT(note("<|eot_id|><|begin_of_text|><|eot_id|>"),
               ContainsSubstring("3 control tokens (<|eot_id|>, <|begin_of_text|>)"));
    // Six kinds: five are named.
    const std::string said =
        note("<|begin_of_text|><|end_of_text|><|reserved_special_token_0|><|start_header_id|>"
             "<|end_header_id|><|eot_id|>");
    CHECK_THAT(said, ContainsSubstring("6 control tokens (<|begin_of_text|>, ") &&
                         ContainsSubstring("<|end_header_id|>, ...)") && !ContainsSubstring("eot_id"));
}

TEST_CASE("a byte that breaks its run turns the whole run into replacement characters", "[text]") {
    const auto tokenizer = family("Llama 2");
    const auto byte = [&](unsigned value) { // the vocabulary starts with <unk>, <s>, </s> and the 256 bytes
        return static_cast<int32_t>(3 + value);
    };
    TextStream stream(tokenizer);
    const int32_t word = tokenizer->encode("the").back();
    const std::string text(tokenizer->token_bytes(word));
    CHECK(tokenizer->token_bytes(byte(0xE4)) == "\xE4");
    CHECK(stream.push(byte(0xE4)).empty());
    CHECK(stream.push(byte(0xBD)).empty());
    CHECK(stream.push(byte(0xA0)).empty()); // complete, but the run may still break
    CHECK(stream.push(1).empty());          // skipped: not even the end of the run
    CHECK(stream.push(word) == "\u4f60" + text);
    CHECK(stream.push(byte(0xE4)).empty());
    CHECK(stream.push(byte('a')).empty());
    CHECK(stream.finish() == "\uFFFD\uFFFD");
    TextStream first(tokenizer);
    REQUIRE(text.starts_with(' '));
    CHECK(first.push(word) == text.substr(1)); // the space that the normalizer put there
    CHECK(first.push(word) == text);
    CHECK(first.push(-1).empty());
    CHECK(first.push(1'000'000).empty());
    CHECK(first.finish().empty());
}

} // namespace prompt_text_test
