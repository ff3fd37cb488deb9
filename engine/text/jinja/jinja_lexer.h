#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::jinja {

enum class TokenKind {
    text,
    output_begin,
    output_end,
    block_begin,
    block_end,
    name,
    string,
    integer,
    real,
    symbol,
    end
};

struct Token {
    TokenKind kind;
    std::string text; ///< of a text or string: what it stands for; of a symbol: its characters
    int line;
    int64_t integer = 0;
    double real = 0;
};

/// Cuts a template into tokens, with trim_blocks and lstrip_blocks on and the signs - and + inside the tags obeyed.
/// One line end at the very end of the source does not count. Throws Problem with the line.
[[nodiscard]] std::vector<Token> tokenize(std::string_view source);

/// White space as Python's str.strip() sees it.
[[nodiscard]] bool is_python_space(char32_t c);
[[nodiscard]] std::string_view strip_right(std::string_view text);
[[nodiscard]] std::string_view strip_left(std::string_view text);

} // namespace refreshlab::jinja
