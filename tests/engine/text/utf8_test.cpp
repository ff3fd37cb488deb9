#include "engine/text/utf8.h"
#include "tests/engine/text/text_fixture.h"

namespace utf8_test {

using namespace refreshlab;
using namespace refreshlab::text_test;

namespace {

std::string random_bytes(Random& random) {
    static const char* const pieces[] = {"a",        "\xC3\xA9",    "\xE2\x82\xAC", "\xF0\x9F\x98\x80",
                                         "\xE2\x82", "\xF0\x9F",    "\xFF",         "\x80",
                                         "\xC0",     "\xED\xA0\x80"};
    std::string text;
    for (size_t i = random.below(12); i > 0; --i)
        text += pieces[random.below(std::size(pieces))];
    return text;
}

} // namespace

TEST_CASE("the first ill-formed byte is found", "[text]") {
    CHECK_FALSE(first_invalid_utf8("plain \u00e9 \u4f60 \U0001f600"));
    CHECK(first_invalid_utf8("ab\xC3") == 2);
    CHECK(first_invalid_utf8("\xC0\x80") == 0);         // overlong
    CHECK(first_invalid_utf8("x\xED\xA0\x80") == 1);    // surrogate
    CHECK(first_invalid_utf8("\xF4\x90\x80\x80") == 0); // beyond U+10FFFF
    CHECK(first_invalid_utf8("\xE0\x9F\x80") == 0);
    CHECK_FALSE(first_invalid_utf8(std::string_view("\0", 1)));
}

TEST_CASE("every scalar value survives writing and reading, and no surrogate is read", "[text]") {
    for (char32_t c = 0; c < 0x110000; ++c) {
        std::string text;
        append_utf8(text, c);
        const bool scalar = c < 0xD800 || c > 0xDFFF;
        const Utf8Step step = utf8_step(text, 0);
        if (scalar != (step.kind == Utf8Step::Kind::character) ||
            (scalar && (step.code_point != c || step.length != text.size()))) {
            FAIL("code point " << static_cast<uint32_t>(c));
        }
    }
}

TEST_CASE("a stream gives the same text however its bytes are cut", "[text]") {
    Random random(test::seed(4));
    for (int round = 0; round < 2000; ++round) {
        const std::string bytes = random_bytes(random);
        Utf8Stream whole;
        std::string expected = whole.push(bytes);
        expected += whole.finish();
        Utf8Stream stream;
        std::string pieces;
        for (size_t at = 0; at < bytes.size();) {
            const size_t length = std::min(bytes.size() - at, random.below(4));
            const std::string now = stream.push(std::string_view(bytes).substr(at, length));
            REQUIRE_FALSE(first_invalid_utf8(now));
            pieces += now;
            at += length;
        }
        pieces += stream.finish();
        INFO("bytes " << visible_text(bytes));
        REQUIRE(pieces == expected);
        if (!first_invalid_utf8(bytes)) REQUIRE(pieces == bytes);
    }
}

TEST_CASE("a stream holds back an unfinished character and replaces what can never become one", "[text]") {
    Utf8Stream stream;
    CHECK(stream.push("a\xE2\x82") == "a");
    CHECK(stream.push("\xAC") == "\u20ac");
    CHECK(stream.push("\xE2(") == "\uFFFD(");
    CHECK(stream.push("\xF0\x9F") == "");
    CHECK(stream.finish() == "\uFFFD");
    CHECK(stream.finish() == "");
}

TEST_CASE("code points are counted, each ill-formed byte as one", "[text]") {
    CHECK(count_code_points("") == 0);
    CHECK(count_code_points("\u00e9\u4f60\U0001f600x") == 4);
    CHECK(count_code_points("\xE2\x82") == 2);
    CHECK(count_code_points("a\xFF"
                            "b") == 3);
}

TEST_CASE("text for a terminal holds no character that the terminal would obey", "[text]") {
    CHECK(terminal_text("a\n\tb") == "a\n\tb");
    CHECK(terminal_text("\x1B]0;x\x07\r\b\x7F") == "\\x1B]0;x\\x07\\x0D\\x08\\x7F");
    CHECK(terminal_text("\u009B31m") == "\\xC2\\x9B31m"); // the same as ESC [ in one character
    CHECK(terminal_text("\xE2\x82(") == "\\xE2\\x82(");
    const std::string words = "\u00e9\u4f60 \U0001f468\u200d\U0001f469\u00A0";
    CHECK(terminal_text(words) == words);
    Random random(test::seed(5));
    for (int round = 0; round < 500; ++round) {
        const std::string shown = terminal_text(random_bytes(random));
        REQUIRE_FALSE(first_invalid_utf8(shown));
        for (size_t at = 0; at < shown.size(); at += utf8_step(shown, at).length) {
            const char32_t c = utf8_step(shown, at).code_point;
            REQUIRE((c == '\n' || c == '\t' || (c >= 0x20 && c < 0x7F) || c >= 0xA0));
        }
    }
}

TEST_CASE("visible text shows what cannot be seen and keeps to its room", "[text]") {
    CHECK(visible_text("a\nb\t\r") == "a\\nb\\t\\r");
    CHECK(visible_text("\xE2\x82") == "\\xE2\\x82");
    CHECK(visible_text(std::string_view("\0\x1b\x7f", 3)) == "\\x00\\x1B\\x7F");
    CHECK(visible_text("\u200b\u2028") == "\\u{200B}\\u{2028}");
    CHECK(visible_text("\u00e9\u4f60") == "\u00e9\u4f60");
    CHECK(visible_text("abcdef", 6) == "abcdef");
    CHECK(visible_text("abcdef", 4) == "abc\u2026");
    CHECK(visible_text("abc\n", 4) == "abc\u2026");
    CHECK(visible_text("abc", 0).empty());
    CHECK(visible_lines("a\x1B[31m\nb\tc\n\n") == "a\\x1B[31m\nb\\tc\n\n");
    CHECK(visible_lines("abcdef\nab\nabcdefg", 4) == "abc\u2026\nab\nabc\u2026");
    CHECK(visible_lines("").empty());
    Random random(test::seed(4));
    for (int round = 0; round < 500; ++round) {
        const std::string shown = visible_text(random_bytes(random) + "\n", 7);
        REQUIRE(count_code_points(shown) <= 7);
        REQUIRE_FALSE(first_invalid_utf8(shown));
    }
}

} // namespace utf8_test
