#include "tests/support/seed.h"
#include "ui/base/colour.h"
#include "ui/scene/maps/colour_maps.h"
#include "ui/scene/text/text_layout.h"
#include "ui/scene/text/token_colours.h"

#include <catch2/catch_test_macros.hpp>

#include <random>
#include <string>
#include <vector>

namespace text_layout_test {

using namespace refreshlab::ui;
using Kind = TextLayout::Kind;

namespace {

/// A font of ten pixels per byte.
float measure(std::string_view text) {
    return 10.0F * static_cast<float>(text.size());
}

TextLayout layout_of(const std::vector<std::string>& tokens, float width) {
    TextLayout layout;
    layout.reset({.width = width, .space = 10, .newline = "N", .dot = "_"}, measure);
    for (const std::string& t : tokens)
        layout.append(t, t.starts_with("<|"));
    return layout;
}

/// What stands on a line, gaps as spaces.
std::string line_text(const TextLayout& layout, size_t line) {
    std::string text;
    const auto range = layout.line(line);
    for (size_t i = range.first; i < range.last; ++i) {
        const auto& f = layout.fragments()[i];
        text += std::string(static_cast<size_t>(f.gap / 10), ' ');
        text += layout.text(f);
    }
    return text;
}

std::vector<std::string> lines_of(const TextLayout& layout) {
    std::vector<std::string> lines;
    for (size_t i = 0; i < layout.num_lines(); ++i)
        lines.push_back(line_text(layout, i));
    return lines;
}

} // namespace

TEST_CASE("what stands aside moves the text and is no token of it", "[text][TX3]") {
    TextLayout layout = layout_of({"The", " fox"}, 140);
    layout.append_aside(" ran", false);
    layout.append_aside(".\n", false);      // the line goes on
    layout.append_aside(" off\xE2", false); // half a character is left over, and completes nothing
    layout.append(" sat", false);
    layout.append("\x82\xAC", false);
    CHECK(lines_of(layout)[0] == "The fox ran.N");
    REQUIRE(layout.num_tokens() == 4);
    // Neither the token in front nor the one behind has it.
    for (const size_t token : {0U, 1U, 2U, 3U}) {
        const auto range = layout.token(token);
        for (size_t i = range.first; i < range.last; ++i)
            CHECK(layout.fragments()[i].token == static_cast<int32_t>(token));
    }
    CHECK(layout.token_at(0, 75) == -1); // "fox" ends at 70, "ran" is from 80 to 110
    CHECK(layout.token_at(0, 95) == -1);
    CHECK(layout.token_at(0, 60) == 1);
    CHECK(layout.tokens_in(layout.line(0)) == std::pair(0, 1));
    CHECK_FALSE(layout.tokens_in({layout.token(1).last, layout.token(2).first}));
    std::string asides;
    for (const auto& f : layout.fragments())
        if (f.token < 0) asides += layout.text(f);
    CHECK(asides.starts_with("ran.Noff"));
    CHECK_FALSE(layout.text(layout.fragments().back()).empty());
}

TEST_CASE("pieces of one word touch and move to the next line together", "[text][TX3]") {
    const TextLayout layout = layout_of({"The", " fox", " in", "ter", "nation", "al"}, 120);
    // "international" (13 characters) is wider than the line of 12: it starts on a line of its own and breaks between pieces.
    REQUIRE(lines_of(layout) == std::vector<std::string>{"The fox", "internation", "al"});
    const auto range = layout.line(1);
    for (size_t i = range.first + 1; i < range.last; ++i) {
        const auto &a = layout.fragments()[i - 1], &b = layout.fragments()[i];
        REQUIRE(a.x + a.width == b.x);
        REQUIRE(b.gap == 0);
    }
    REQUIRE(lines_of(layout_of({"The", " fox", " in", "ter"}, 120)) ==
            std::vector<std::string>{"The fox", "inter"});
    REQUIRE(lines_of(layout_of({"The", " fox", " in", "ter"}, 130)) ==
            std::vector<std::string>{"The fox inter"});
}

TEST_CASE("newlines are shown and honoured, and indentation after them stays", "[text][TX3]") {
    REQUIRE(lines_of(layout_of({"a", ":\n", "    b", "\n\n", "c"}, 500)) ==
            std::vector<std::string>{"a:N", "    bN", "N", "c"});
    const TextLayout layout = layout_of({"a", "\n\n"}, 500);
    REQUIRE(layout.num_lines() == 3);
    REQUIRE(layout.token(1).last - layout.token(1).first == 2);
    REQUIRE(layout.fragments().back().kind == Kind::newline);
}

TEST_CASE("bytes of a character show as escapes, the byte that completes it shows the character",
          "[text][TX3]") {
    const TextLayout layout = layout_of({"a\xE2", "\x82", "\xAC!", "\xFF", "\xF0\x9F", "x", "\t"}, 1000);
    const auto text_of = [&](size_t token) {
        std::string text;
        for (size_t i = layout.token(token).first; i < layout.token(token).last; ++i)
            text += layout.text(layout.fragments()[i]);
        return text;
    };
    REQUIRE(text_of(0) == "a\\xE2");
    REQUIRE(text_of(1) == "\\x82");
    REQUIRE(text_of(2) == "\u20AC!");
    REQUIRE(text_of(3) == "\\xFF");
    REQUIRE(text_of(4) == "\\xF0\\x9F");
    REQUIRE(text_of(5) == "x"); // the character was never completed
    REQUIRE(text_of(6) == "\\t");
    REQUIRE(layout.fragments()[layout.token(1).first].kind == Kind::escape);
}

TEST_CASE("special tokens, spaces alone and tokens without bytes have a box of their own", "[text][TX3]") {
    const TextLayout layout = layout_of({"<|user|>", "hi", " ", "  ", "", "<|end|>"}, 1000);
    for (size_t t = 0; t < layout.num_tokens(); ++t) {
        CAPTURE(t);
        const auto range = layout.token(t);
        REQUIRE(range.first < range.last);
        REQUIRE(layout.fragments()[range.first].width > 0);
    }
    REQUIRE(layout.fragments()[layout.token(0).first].kind == Kind::special);
    REQUIRE(layout.text(layout.fragments()[layout.token(3).first]) == "__");
}

TEST_CASE("whatever the tokens and the width: nothing is lost, nothing overlaps, nothing leaves the line",
          "[text][TX3]") {
    const std::vector<std::string> pieces = {"a",
                                             " fox",
                                             "ing",
                                             " ",
                                             "\n",
                                             "x\n\n",
                                             "  ind",
                                             "\xE2",
                                             "\x82\xAC",
                                             "<|end|>",
                                             "supercalifragilistic",
                                             " of",
                                             ",",
                                             "\u4F60\u597D",
                                             "\t",
                                             " a b  c",
                                             ""};
    for (uint32_t run = 1; run <= 40; ++run) {
        CAPTURE(run);
        std::mt19937 random(refreshlab::test::seed(run));
        const float width = 30 + static_cast<float>(random() % 400);
        std::vector<std::string> tokens;
        for (size_t i = 0, n = random() % 200; i < n; ++i)
            tokens.push_back(pieces[random() % pieces.size()]);
        const TextLayout layout = layout_of(tokens, width);
        REQUIRE(layout.num_tokens() == tokens.size());
        size_t seen = 0;
        int32_t token = -1;
        for (size_t line = 0; line < layout.num_lines(); ++line) {
            const auto range = layout.line(line);
            REQUIRE(range.first == seen);
            float end = 0;
            for (size_t i = range.first; i < range.last; ++i, ++seen) {
                const auto& f = layout.fragments()[i];
                REQUIRE(f.line == static_cast<int32_t>(line));
                REQUIRE(f.x - f.gap >= end - 1e-3F);
                REQUIRE(f.token >= token);
                REQUIRE(f.token - token <= 1);
                REQUIRE(f.starts_token == (f.token != token));
                // A single character may be wider than the line, and so may an escape; nothing else.
                if (f.x + f.width > width) REQUIRE((i == range.first && layout.text(f).size() <= 4));
                REQUIRE(layout.token_at(line, f.x + 1) == f.token);
                token = f.token;
                end = f.x + f.width;
            }
        }
        REQUIRE(seen == layout.fragments().size());
        REQUIRE(token + 1 == static_cast<int32_t>(tokens.size()));
    }
}

TEST_CASE("ten thousand tokens: a line is found without looking at the others", "[text]") {
    TextLayout layout;
    layout.reset({.width = 400, .space = 10, .newline = "N", .dot = "_"}, measure);
    for (int i = 0; i < 10'000; ++i)
        layout.append(i % 3 == 0 ? " word" : "ing", false);
    REQUIRE(layout.num_tokens() == 10'000);
    const size_t middle = layout.num_lines() / 2;
    const auto range = layout.line(middle);
    REQUIRE(range.last - range.first < 20);
    REQUIRE(layout.token_at(middle, 1) >= 0);
    REQUIRE(layout.token_at(middle, 5000) == -1);
    REQUIRE(layout.token_at(layout.num_lines() + 3, 1) == -1);
}

TEST_CASE("token colours go from the background to the signal's colour, and the text stays readable",
          "[text][TX1]") {
    for (const uint32_t hue : {0xFFE9B456U, 0xFF739E00U, 0xFF101010U, 0xFFFFFFFFU, 0xFF0000FFU, 0xFF42E4F0U})
        for (const auto& [background, text] :
             {std::pair{0xFF231D1AU, 0xFFECE7E4U}, std::pair{0xFFFFFFFFU, 0xFF201A16U}}) {
            TokenColours colours;
            colours.build(hue, background, text);
            double before = 0;
            for (int i = 0; i < 256; ++i) {
                const auto& e = colours.at(i / 255.0);
                CAPTURE(hue, i);
                REQUIRE(contrast(e.background, e.text) >= 4.4999);
                // The higher the value, the further from the background.
                const double away = contrast(e.background, background);
                REQUIRE(away >= before - 0.02);
                before = away;
            }
            REQUIRE(contrast(colours.at(0).background, background) < 1.15); // low is as good as transparent
            REQUIRE(colours.at(0).underline == 0);                          // and has no underline
            REQUIRE(colours.at(1).underline == hue);
            REQUIRE(colours.at(-3).background == colours.at(0).background);
            REQUIRE(colours.at(7).underline == colours.at(1).underline);
            REQUIRE(TokenColours::entry(hue, background, text).underline == hue);
        }
    REQUIRE(contrast(0xFF000000U, 0xFFFFFFFFU) > 20.9);
    REQUIRE(contrast(0xFF808080U, 0xFF808080U) == 1);
}

} // namespace text_layout_test
