#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace refreshlab {

namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

constexpr bool in(unsigned char byte, unsigned char low, unsigned char high) {
    return low <= byte && byte <= high;
}

/// Characters that take no room or change the direction of the text around them: shown as \u{...}.
constexpr bool is_invisible(char32_t c) {
    return (c >= 0x80 && c < 0xA0) || c == 0xAD || (c >= 0x200B && c <= 0x200F) ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF ||
           (c >= 0xFFF9 && c <= 0xFFFB) || c >= 0xE0000;
}

} // namespace

Utf8Step utf8_step(std::string_view text, size_t offset) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[offset + i]); };
    const unsigned char first = byte(0);
    if (first < 0x80) return {Utf8Step::Kind::character, 1, first};
    // Table 3-7: the second byte's range depends on the first, which rules out overlong forms, surrogates and > 10FFFF.
    size_t need = 0;
    unsigned char low = 0x80, high = 0xBF;
    char32_t value = 0;
    if (in(first, 0xC2, 0xDF)) {
        need = 2;
        value = first & 0x1F;
    } else if (in(first, 0xE0, 0xEF)) {
        need = 3;
        value = first & 0x0F;
        if (first == 0xE0) low = 0xA0;
        if (first == 0xED) high = 0x9F;
    } else if (in(first, 0xF0, 0xF4)) {
        need = 4;
        value = first & 0x07;
        if (first == 0xF0) low = 0x90;
        if (first == 0xF4) high = 0x8F;
    } else {
        return {Utf8Step::Kind::ill_formed, 1, 0xFFFD};
    }
    for (size_t i = 1; i < need; ++i) {
        if (offset + i == text.size()) return {Utf8Step::Kind::truncated, i, 0xFFFD};
        if (!in(byte(i), low, high)) return {Utf8Step::Kind::ill_formed, i, 0xFFFD};
        value = (value << 6) | (byte(i) & 0x3F);
        low = 0x80;
        high = 0xBF;
    }
    return {Utf8Step::Kind::character, need, value};
}

void append_utf8(std::string& out, char32_t code_point) {
    const auto put = [&](char32_t bits) { out += static_cast<char>(static_cast<unsigned char>(bits)); };
    if (code_point < 0x80) {
        put(code_point);
    } else if (code_point < 0x800) {
        put(0xC0 | (code_point >> 6));
        put(0x80 | (code_point & 0x3F));
    } else if (code_point < 0x10000) {
        put(0xE0 | (code_point >> 12));
        put(0x80 | ((code_point >> 6) & 0x3F));
        put(0x80 | (code_point & 0x3F));
    } else {
        put(0xF0 | (code_point >> 18));
        put(0x80 | ((code_point >> 12) & 0x3F));
        put(0x80 | ((code_point >> 6) & 0x3F));
        put(0x80 | (code_point & 0x3F));
    }
}

std::optional<size_t> first_invalid_utf8(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
        const Utf8Step step = utf8_step(text, at);
        if (step.kind != Utf8Step::Kind::character) return at;
        at += step.length;
    }
    return std::nullopt;
}

int64_t count_code_points(std::string_view text) {
    int64_t count = 0;
    for (size_t at = 0; at < text.size(); ++count) {
        const Utf8Step step = utf8_step(text, at);
        at += step.kind == Utf8Step::Kind::character ? step.length : 1;
    }
    return count;
}

std::string Utf8Stream::push(std::string_view bytes) {
    m_pending += bytes;
    std::string out;
    size_t at = 0;
    while (at < m_pending.size()) {
        const Utf8Step step = utf8_step(m_pending, at);
        if (step.kind == Utf8Step::Kind::truncated) break;
        out += step.kind == Utf8Step::Kind::character ? std::string_view(m_pending).substr(at, step.length)
                                                      : replacement;
        at += step.length;
    }
    m_pending.erase(0, at);
    return out;
}

std::string Utf8Stream::finish() {
    // At most three bytes of one truncated sequence are ever held back: one character that never came.
    const bool unfinished = !m_pending.empty();
    m_pending.clear();
    return unfinished ? std::string(replacement) : std::string();
}

std::string visible_text(std::string_view bytes, size_t max_chars) {
    std::string out;
    size_t chars = 0;
    size_t before_last = 0; // where out ends when the last character has to make room for the ellipsis
    for (size_t at = 0; at < bytes.size();) {
        const Utf8Step step = utf8_step(bytes, at);
        std::string shown;
        if (step.kind != Utf8Step::Kind::character) {
            for (size_t i = 0; i < step.length; ++i) {
                shown += fmt::format("\\x{:02X}", static_cast<unsigned char>(bytes[at + i]));
            }
        } else if (step.code_point == '\n') {
            shown = "\\n";
        } else if (step.code_point == '\t') {
            shown = "\\t";
        } else if (step.code_point == '\r') {
            shown = "\\r";
        } else if (step.code_point < 0x20 || step.code_point == 0x7F) {
            shown = fmt::format("\\x{:02X}", static_cast<uint32_t>(step.code_point));
        } else if (is_invisible(step.code_point)) {
            shown = fmt::format("\\u{{{:X}}}", static_cast<uint32_t>(step.code_point));
        } else {
            shown = bytes.substr(at, step.length);
        }
        const size_t width = static_cast<size_t>(count_code_points(shown));
        if (width > max_chars - chars) {
            if (max_chars == 0) return {};
            if (chars == max_chars) out.resize(before_last);
            return out + "\u2026";
        }
        if (chars < max_chars) before_last = out.size();
        chars += width;
        out += shown;
        at += step.length;
    }
    return out;
}

std::string visible_lines(std::string_view bytes, size_t max_chars) {
    std::string out;
    while (true) {
        const size_t end = std::min(bytes.find('\n'), bytes.size());
        out += visible_text(bytes.substr(0, end), max_chars);
        if (end == bytes.size()) return out;
        out += '\n';
        bytes.remove_prefix(end + 1);
    }
}

std::string terminal_text(std::string_view bytes) {
    std::string out;
    for (size_t at = 0; at < bytes.size();) {
        const Utf8Step step = utf8_step(bytes, at);
        const char32_t c = step.code_point;
        const bool control = (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7F && c < 0xA0);
        if (step.kind != Utf8Step::Kind::character || control) {
            for (const char byte : bytes.substr(at, step.length))
                out += fmt::format("\\x{:02X}", static_cast<unsigned char>(byte));
        } else {
            out += bytes.substr(at, step.length);
        }
        at += step.length;
    }
    return out;
}

} // namespace refreshlab
