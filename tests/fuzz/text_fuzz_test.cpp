#include "engine/base/error.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "engine/text/utf8.h"
#include "tests/fuzz/fuzz_support.h"

#include <catch2/catch_test_macros.hpp>

#include <stdexcept>

namespace text_fuzz_test {

using namespace refreshlab;

namespace {

void require(bool holds, const char* what) {
    if (!holds) throw std::logic_error(what);
}

const std::string texts[] = {"",
                             " ",
                             "abc the  cab\n\n12 3",
                             "<s>x</s> [INST]y<|end|>  ",
                             "\u00e9e\u0301 \u4f60\u597d \U0001f600\u2581 MASK!",
                             std::string("a\0b", 3)};

/// What must hold for a tokenizer that was accepted, whatever its file says.
void use(const std::shared_ptr<const Tokenizer>& tokenizer) {
    const int32_t size = tokenizer->vocab_size();
    std::vector<int32_t> all;
    for (const std::string& text : texts) {
        std::vector<int32_t> ids;
        try {
            ids = tokenizer->encode(text, true);
        } catch (const Error&) { // its patterns may need more work than allowed, its normalizer grow too much
            continue;
        }
        for (const int32_t id : ids)
            require(id >= 0 && id < size, "an id outside the vocabulary");
        all.insert(all.end(), ids.begin(), ids.end());
    }
    for (int32_t id = -1; id <= std::min(size, 40); ++id)
        all.push_back(id);
    for (const bool skip : {false, true}) {
        TextStream stream(tokenizer, skip);
        std::string joined;
        for (const int32_t id : all) {
            const std::string part = stream.push(id);
            require(!first_invalid_utf8(part), "a part of a stream that is no UTF-8");
            joined += part;
        }
        joined += stream.finish();
        Utf8Stream bytes;
        std::string whole = bytes.push(tokenizer->decode(all, skip));
        whole += bytes.finish();
        require(joined == whole, "a stream that differs from the text of all ids");
    }
}

} // namespace

TEST_CASE("any tokenizer.json is refused in one line or tokenizes", "[fuzz]") {
    const std::vector<std::string> words = {"ByteLevel",   "Split",      "Digits",
                                            "Metaspace",   "Sequence",   "Prepend",
                                            "Replace",     "NFC",        "TemplateProcessing",
                                            "Strip",       "Fuse",       "ByteFallback",
                                            "Isolated",    "Contiguous", "first",
                                            "never",       "always",     "\\p{L}+",
                                            "\\s+(?!\\S)", "(?i:a|b)",   "[^\\s]",
                                            "{1,3}",       "(?<=a)",     "\\b",
                                            "\\x{41}",     "[a&&b]",     "(a*)*b",
                                            "<0x0A>",      "\\u2581"};
    const fuzz::Outcome outcome = fuzz::run_target(
        "tokenizer", [](const std::string& input, size_t) { use(Tokenizer::parse(input, "this input")); },
        words);
    CHECK(outcome.accepted > outcome.refused / 20);
}

TEST_CASE("any chat template is refused in one line or renders within its limit", "[fuzz]") {
    const std::vector<ChatMessage> messages = {{"system", "S "},
                                               {"user", "u </think> v"},
                                               {"assistant", "<think>a</think>\n b"},
                                               {"user", "\xFF \u00e9"}};
    RenderOptions options;
    options.now.emplace();
    options.max_work = 300'000;
    const std::vector<std::string> words = {"{{",
                                            "}}",
                                            "{%",
                                            "%}",
                                            "{%-",
                                            "-%}",
                                            "{#",
                                            "#}",
                                            " | ",
                                            "loop.",
                                            "range(9)",
                                            "[::-1]",
                                            ".split(",
                                            ".count(",
                                            ".replace(",
                                            ".strip(",
                                            "('a' * 9999)",
                                            "('a' * 999 ~ 'b')",
                                            ".items()",
                                            "namespace(",
                                            "tojson",
                                            "selectattr",
                                            " is ",
                                            " not ",
                                            " in ",
                                            " if ",
                                            " else ",
                                            "for x in ",
                                            "endfor",
                                            "endif",
                                            "set ",
                                            "macro f()",
                                            "endmacro",
                                            "messages",
                                            "message",
                                            "content",
                                            "ns.x",
                                            "~",
                                            "**",
                                            "//",
                                            "99999999999",
                                            "raise_exception(",
                                            "strftime_now('%d')",
                                            "'\\u00e9'",
                                            "\"\"",
                                            "()",
                                            "f(",
                                            "none",
                                            "true",
                                            "break",
                                            "continue"};
    const fuzz::Outcome outcome = fuzz::run_target(
        "chat_template",
        [&](const std::string& input, size_t) {
            const std::string text = ChatTemplate::parse(input, "<s>", "</s>")->render(messages, options);
            require(text.size() <= options.max_work, "a text longer than the work allowed");
        },
        words);
    CHECK(outcome.accepted > outcome.refused / 20);
}

} // namespace text_fuzz_test
