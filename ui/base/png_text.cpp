#include "ui/base/png_text.h"

#include "engine/base/error.h"

#include <array>
#include <stdexcept>

namespace refreshlab::ui {
namespace {

constexpr std::string_view signature{"\x89PNG\r\n\x1a\n", 8};
constexpr size_t chunk_overhead = 12; // length, type, CRC: four bytes each

constexpr std::array<uint32_t, 256> crc_table() {
    std::array<uint32_t, 256> table{};
    for (uint32_t n = 0; n < 256; ++n) {
        uint32_t c = n;
        for (int bit = 0; bit < 8; ++bit)
            c = (c & 1U) != 0 ? 0xEDB88320U ^ (c >> 1U) : c >> 1U;
        table[n] = c;
    }
    return table;
}

uint32_t big_endian_at(std::string_view bytes, size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i)
        value = value << 8U | static_cast<unsigned char>(bytes[at + i]);
    return value;
}

void append_big_endian(std::string& out, uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8)
        out.push_back(static_cast<char>(value >> static_cast<unsigned>(shift)));
}

/// Calls visit(type, data, offset, crc_is_right) for each whole chunk; false if the file is cut or no PNG.
template <class Visit>
bool for_each_chunk(std::string_view png, const Visit& visit) {
    if (!png.starts_with(signature)) return false;
    size_t at = signature.size();
    while (at < png.size()) {
        if (png.size() - at < chunk_overhead) return false;
        const size_t length = big_endian_at(png, at);
        if (length > png.size() - at - chunk_overhead) return false;
        const std::string_view type = png.substr(at + 4, 4), data = png.substr(at + 8, length);
        visit(type, data, at, png_crc(png.substr(at + 4, 4 + length)) == big_endian_at(png, at + 8 + length));
        at += chunk_overhead + length;
        if (type == "IEND") return true;
    }
    return false;
}

} // namespace

uint32_t png_crc(std::string_view bytes) {
    static constexpr auto table = crc_table();
    uint32_t c = 0xFFFFFFFFU;
    for (const char byte : bytes)
        c = table[(c ^ static_cast<unsigned char>(byte)) & 0xFFU] ^ (c >> 8U);
    return c ^ 0xFFFFFFFFU;
}

std::string with_png_text(std::string_view png, std::string_view keyword, std::string_view text) {
    if (keyword.empty() || keyword.size() > 79)
        throw std::invalid_argument("PNG keyword must have 1 to 79 characters");
    size_t end_offset = 0;
    const bool whole = for_each_chunk(png, [&](std::string_view type, std::string_view, size_t offset, bool) {
        if (type == "IEND") end_offset = offset;
    });
    if (!whole)
        throw Error("adding text to a picture", std::string(keyword), "not a whole PNG", {},
                    ErrorKind::failure);

    std::string chunk = "iTXt";
    chunk.append(keyword);
    chunk.append(
        5, '\0'); // end of keyword, not compressed, method 0, empty language tag, empty translated keyword
    chunk.append(text);
    std::string result;
    result.reserve(png.size() + chunk.size() + 8);
    result.append(png.substr(0, end_offset));
    append_big_endian(result, static_cast<uint32_t>(chunk.size() - 4));
    result.append(chunk);
    append_big_endian(result, png_crc(chunk));
    result.append(png.substr(end_offset));
    return result;
}

std::optional<std::string> png_text(std::string_view png, std::string_view keyword) {
    std::optional<std::string> found;
    for_each_chunk(png, [&](std::string_view type, std::string_view data, size_t, bool right) {
        if (type != "iTXt" || !right || found) return;
        const size_t keyword_end = data.find('\0');
        if (keyword_end == std::string_view::npos || data.substr(0, keyword_end) != keyword) return;
        if (data.size() < keyword_end + 3 || data[keyword_end + 1] != '\0') return; // compressed
        const size_t language_end = data.find('\0', keyword_end + 3);
        if (language_end == std::string_view::npos) return;
        const size_t translated_end = data.find('\0', language_end + 1);
        if (translated_end == std::string_view::npos) return;
        found = std::string(data.substr(translated_end + 1));
    });
    return found;
}

} // namespace refreshlab::ui
