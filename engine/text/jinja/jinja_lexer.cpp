#include "engine/text/jinja/jinja_lexer.h"

#include "engine/text/jinja/jinja_value.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace refreshlab::jinja {

namespace {

constexpr bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
constexpr bool is_name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
}

std::string normalize_newlines(std::string_view source) {
    std::string out;
    out.reserve(source.size());
    for (size_t i = 0; i < source.size(); ++i) {
        if (source[i] == '\r') {
            out += '\n';
            if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
        } else {
            out += source[i];
        }
    }
    if (out.ends_with('\n')) out.pop_back();
    return out;
}

class Lexer {
public:
    explicit Lexer(std::string_view source)
        : m_source(normalize_newlines(source))
        , m_in(m_source) {}

    std::vector<Token> run() {
        while (m_at < m_in.size()) {
            const size_t tag = next_tag();
            text_until(tag);
            if (tag == m_in.size()) break;
            const char kind = m_in[tag + 1];
            m_at = tag + 2;
            const bool sign = m_at < m_in.size() && (m_in[m_at] == '-' || m_in[m_at] == '+');
            if (sign) ++m_at;
            if (kind == '#') {
                comment();
            } else if (kind == '%' && raw_follows()) {
                raw();
            } else {
                inside(kind == '%');
            }
        }
        add(TokenKind::end, "");
        return std::move(m_tokens);
    }

private:
    [[noreturn]] void fail(const std::string& what) const { throw Problem(what, m_line); }

    [[nodiscard]] bool next_is(std::string_view text) const { return m_in.substr(m_at).starts_with(text); }

    void add(TokenKind kind, std::string text) { m_tokens.push_back({kind, std::move(text), m_line, 0, 0}); }

    void advance(size_t to) {
        m_line += static_cast<int>(std::count(m_in.begin() + static_cast<std::ptrdiff_t>(m_at),
                                              m_in.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
        m_at = to;
    }

    [[nodiscard]] size_t next_tag() const {
        for (size_t at = m_in.find('{', m_at); at != std::string_view::npos; at = m_in.find('{', at + 1)) {
            if (at + 1 < m_in.size() && (m_in[at + 1] == '{' || m_in[at + 1] == '%' || m_in[at + 1] == '#'))
                return at;
        }
        return m_in.size();
    }

    /// The text before a tag, less the white space that the tag takes with it.
    void text_until(size_t tag) {
        std::string_view text = m_in.substr(m_at, tag - m_at);
        const char kind = tag < m_in.size() ? m_in[tag + 1] : '{';
        const char sign = tag + 2 < m_in.size() ? m_in[tag + 2] : ' ';
        if (tag < m_in.size() && sign == '-') {
            text = strip_right(text);
        } else if (kind != '{' && sign != '+') { // lstrip_blocks: from the start of the line up to the tag
            const size_t newline = text.rfind('\n');
            const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
            if ((line > 0 || m_line_starts) && strip_left(text.substr(line)).empty())
                text = text.substr(0, line);
        }
        if (!text.empty()) add(TokenKind::text, std::string(text));
        advance(tag);
    }

    /// After the closing of a tag: "-" takes all white space, a block or comment takes one line end.
    void after_tag(char sign, bool trims) {
        const size_t begin = m_at;
        size_t end = m_at;
        if (sign == '-') {
            end = m_in.size() - strip_left(m_in.substr(m_at)).size();
        } else if (trims && sign != '+' && end < m_in.size() && m_in[end] == '\n') {
            ++end;
        }
        advance(end);
        m_line_starts = end > begin && m_in[end - 1] == '\n';
    }

    void comment() {
        const size_t end = m_in.find("#}", m_at);
        if (end == std::string_view::npos) fail("a comment is not closed");
        const char sign = end > m_at && (m_in[end - 1] == '-' || m_in[end - 1] == '+') ? m_in[end - 1] : ' ';
        advance(end + 2);
        after_tag(sign, true);
    }

    /// Is this tag "raw"? Then m_at moves after it.
    bool raw_follows() {
        const std::string_view rest = strip_left(m_in.substr(m_at));
        if (!rest.starts_with("raw")) return false;
        const std::string_view close = strip_left(rest.substr(3));
        const bool minus = close.starts_with("-%}");
        if (!minus && !close.starts_with("%}")) return false;
        advance(m_in.size() - close.size() + (minus ? 3 : 2));
        if (minus) advance(m_in.size() - strip_left(m_in.substr(m_at)).size());
        return true;
    }

    void raw() {
        for (size_t tag = m_in.find("{%", m_at); tag != std::string_view::npos;
             tag = m_in.find("{%", tag + 1)) {
            std::string_view rest = m_in.substr(tag + 2);
            const char open = rest.empty() ? ' ' : rest.front();
            if (open == '-' || open == '+') rest.remove_prefix(1);
            rest = strip_left(rest);
            if (!rest.starts_with("endraw")) continue;
            rest = strip_left(rest.substr(6));
            const char sign = rest.starts_with("-%}") ? '-' : rest.starts_with("+%}") ? '+' : ' ';
            if (sign == ' ' && !rest.starts_with("%}")) continue;
            text_until(tag);
            advance(m_in.size() - rest.size() + (sign == ' ' ? 2 : 3));
            after_tag(sign, true);
            return;
        }
        fail("raw is not closed by endraw");
    }

    /// The tokens between {{ and }} or {% and %}.
    void inside(bool block) {
        const std::string_view close = block ? "%}" : "}}";
        add(block ? TokenKind::block_begin : TokenKind::output_begin, "");
        std::string open_brackets;
        while (true) {
            while (m_at < m_in.size() && strip_left(m_in.substr(m_at, 1)).empty())
                advance(m_at + 1);
            if (m_at >= m_in.size()) fail(fmt::format("{} missing", close));
            if (open_brackets.empty()) {
                const bool signed_close = (m_in[m_at] == '-' || (block && m_in[m_at] == '+')) &&
                                          m_in.substr(m_at + 1).starts_with(close);
                if (signed_close || next_is(close)) {
                    const char sign = signed_close ? m_in[m_at] : ' ';
                    add(block ? TokenKind::block_end : TokenKind::output_end, "");
                    m_at += signed_close ? 3 : 2;
                    after_tag(sign, block);
                    return;
                }
            }
            const char c = m_in[m_at];
            if (is_name_start(c)) {
                name();
            } else if (is_digit(c)) {
                number();
            } else if (c == '"' || c == '\'') {
                string(c);
            } else {
                symbol(open_brackets);
            }
        }
    }

    void name() {
        const size_t begin = m_at;
        while (m_at < m_in.size() && (is_name_start(m_in[m_at]) || is_digit(m_in[m_at])))
            ++m_at;
        add(TokenKind::name, std::string(m_in.substr(begin, m_at - begin)));
    }

    void number() {
        std::string text;
        bool is_real = false;
        const auto digits = [&] {
            while (m_at < m_in.size() && (is_digit(m_in[m_at]) || m_in[m_at] == '_')) {
                if (m_in[m_at] != '_') text += m_in[m_at];
                ++m_at;
            }
        };
        const auto digit_at = [&](size_t at) { return at < m_in.size() && is_digit(m_in[at]); };
        digits();
        if (m_at < m_in.size() && m_in[m_at] == '.' && digit_at(m_at + 1)) {
            is_real = true;
            text += m_in[m_at++];
            digits();
        }
        if (m_at < m_in.size() && (m_in[m_at] == 'e' || m_in[m_at] == 'E')) {
            const size_t sign =
                m_at + 1 < m_in.size() && (m_in[m_at + 1] == '-' || m_in[m_at + 1] == '+') ? 1 : 0;
            if (digit_at(m_at + 1 + sign)) {
                is_real = true;
                text += m_in.substr(m_at, 1 + sign);
                m_at += 1 + sign;
                digits();
            }
        }
        add(is_real ? TokenKind::real : TokenKind::integer, text);
        Token& token = m_tokens.back();
        const char* end = text.data() + text.size();
        if (is_real) {
            if (std::from_chars(text.data(), end, token.real).ec != std::errc{}) fail("number out of range");
        } else if (std::from_chars(text.data(), end, token.integer).ec != std::errc{}) {
            fail("number out of range");
        }
    }

    /// A string in quotes, with Python's escapes.
    void string(char quote) {
        std::string text;
        size_t at = m_at + 1;
        const auto code = [&](size_t digits) {
            uint32_t value = 0;
            const std::string_view hex = m_in.substr(at, digits);
            const auto result = std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
            if (hex.size() != digits || result.ptr != hex.data() + digits || value > 0x10FFFF ||
                (value >= 0xD800 && value < 0xE000)) {
                fail("a string has an escape that is no character");
            }
            at += digits;
            append_utf8(text, value);
        };
        while (true) {
            if (at >= m_in.size()) fail("a string is not closed");
            const char c = m_in[at++];
            if (c == quote) break;
            if (c != '\\') {
                text += c;
                continue;
            }
            if (at >= m_in.size()) fail("a string is not closed");
            const char escape = m_in[at++];
            switch (escape) {
            case 'n':
                text += '\n';
                break;
            case 't':
                text += '\t';
                break;
            case 'r':
                text += '\r';
                break;
            case 'a':
                text += '\a';
                break;
            case 'b':
                text += '\b';
                break;
            case 'f':
                text += '\f';
                break;
            case 'v':
                text += '\v';
                break;
            case '\\':
            case '\'':
            case '"':
                text += escape;
                break;
            case '\n':
                break; // a string that goes on in the next line
            case 'x':
                code(2);
                break;
            case 'u':
                code(4);
                break;
            case 'U':
                code(8);
                break;
            case 'N':
                fail("\\N{...} in a string is not supported");
            default:
                if (escape >= '0' && escape <= '7') {
                    uint32_t value = static_cast<uint32_t>(escape - '0');
                    for (int i = 0; i < 2 && at < m_in.size() && m_in[at] >= '0' && m_in[at] <= '7'; ++i) {
                        value = value * 8 + static_cast<uint32_t>(m_in[at++] - '0');
                    }
                    append_utf8(text, value);
                } else { // as Python does
                    text += '\\';
                    text += escape;
                }
            }
        }
        add(TokenKind::string, std::move(text));
        advance(at);
    }

    void symbol(std::string& open_brackets) {
        constexpr std::string_view pairs[] = {"//", "**", "==", "!=", ">=", "<="};
        for (const std::string_view pair : pairs) {
            if (next_is(pair)) {
                add(TokenKind::symbol, std::string(pair));
                m_at += 2;
                return;
            }
        }
        const char c = m_in[m_at];
        if (std::string_view("+-/*%~[](){}<>=.:|,").find(c) == std::string_view::npos) {
            fail(fmt::format("unexpected character '{}'", visible_text(m_in.substr(m_at, 1))));
        }
        if (c == '(' || c == '[' || c == '{') {
            open_brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
        } else if (c == ')' || c == ']' || c == '}') {
            if (open_brackets.empty() || open_brackets.back() != c) fail(fmt::format("unexpected '{}'", c));
            open_brackets.pop_back();
        }
        add(TokenKind::symbol, std::string(1, c));
        ++m_at;
    }

    std::string m_source;
    std::string_view m_in;
    size_t m_at = 0;
    int m_line = 1;
    bool m_line_starts = true; ///< does the text at m_at begin a line, as lstrip_blocks sees it?
    std::vector<Token> m_tokens;
};

} // namespace

std::vector<Token> tokenize(std::string_view source) {
    return Lexer(source).run();
}

bool is_python_space(char32_t c) {
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
           c == 0x3000;
}

std::string_view strip_left(std::string_view text) {
    while (!text.empty()) {
        const Utf8Step step = utf8_step(text, 0);
        if (!is_python_space(step.code_point)) break;
        text.remove_prefix(step.length);
    }
    return text;
}

std::string_view strip_right(std::string_view text) {
    while (!text.empty()) {
        size_t begin = text.size() - 1;
        while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80)
            --begin;
        if (!is_python_space(utf8_step(text, begin).code_point)) break;
        text = text.substr(0, begin);
    }
    return text;
}

} // namespace refreshlab::jinja
