#include "engine/base/shell_word.h"

#include <algorithm>
#include <cctype>

namespace refreshlab {

std::string shell_word(std::string_view text) {
    const bool plain = !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
        return std::isalnum(c) != 0 ||
               std::string_view("-_=.,:/+@%").find(static_cast<char>(c)) != std::string_view::npos;
    });
    if (plain) return std::string(text);
    std::string word = "'";
    for (const char c : text)
        word += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return word + "'";
}

} // namespace refreshlab
