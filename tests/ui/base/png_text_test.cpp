#include "engine/base/error.h"
#include "ui/base/png_text.h"

#include <catch2/catch_test_macros.hpp>

#include <string>

using namespace refreshlab;
using namespace refreshlab::ui;

namespace {

// A one-pixel PNG, written by an independent encoder (zlib level 9, one grey pixel).
const std::string one_pixel("\x89PNG\r\n\x1a\n\x00\x00\x00\x0DIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00"
                            "\x00\x00\x00\x3A\x7E\x9B\x55"
                            "\x00\x00\x00\x0AIDAT\x78\xDA\x63\x60\x00\x00\x00\x02\x00\x01\xE5\x27\xDE\xFC"
                            "\x00\x00\x00\x00IEND\xAE\x42\x60\x82",
                            67);

} // namespace

TEST_CASE("the CRC is that of the PNG specification", "[ui]") {
    CHECK(png_crc("IEND") == 0xAE426082U);      // of every PNG
    CHECK(png_crc("123456789") == 0xCBF43926U); // the usual check value of CRC-32
    CHECK(png_crc("") == 0U);
}

TEST_CASE("text comes back from the picture, and the picture's own chunks stay as they were", "[ui]") {
    const std::string text =
        "{\"run\": \"0123\", \"prompt\": \"caf\xC3\xA9 \xE2\x86\x92 \xF0\x9F\xA6\x8A\"}\nsecond line";
    const std::string with =
        with_png_text(with_png_text(one_pixel, "Software", "RefreshLab"), "RefreshLab", text);
    CHECK(png_text(with, "RefreshLab") == text);
    CHECK(png_text(with, "Software") == "RefreshLab");
    CHECK_FALSE(png_text(with, "Author").has_value());
    const std::string end = one_pixel.substr(one_pixel.size() - 12);
    CHECK(with.starts_with(one_pixel.substr(0, one_pixel.size() - 12)));
    CHECK(with.ends_with(end));
}

TEST_CASE("an empty text is a text", "[ui]") {
    CHECK(png_text(with_png_text(one_pixel, "Comment", ""), "Comment") == "");
}

TEST_CASE("a chunk that was damaged is not believed", "[ui]") {
    std::string with = with_png_text(one_pixel, "RefreshLab", "seed 7");
    const size_t at = with.find("seed 7");
    REQUIRE(at != std::string::npos);
    with[at] = 'S';
    CHECK_FALSE(png_text(with, "RefreshLab").has_value());
}

TEST_CASE("what is no whole PNG gets no text", "[ui]") {
    CHECK_THROWS_AS(with_png_text("", "a", "b"), Error);
    CHECK_THROWS_AS(with_png_text("GIF89a", "a", "b"), Error);
    for (size_t cut = 8; cut < one_pixel.size(); ++cut) {
        CAPTURE(cut);
        CHECK_THROWS_AS(with_png_text(one_pixel.substr(0, cut), "a", "b"), Error);
        CHECK_FALSE(png_text(one_pixel.substr(0, cut), "a").has_value());
    }
}
