#include "engine/base/shell_word.h"

#include <algorithm>

namespace refreshlab {

std::string shell_word(std::string_view text) {
    const auto plain = [](char c) { // in any locale
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("_-./:=@,+%").find(c) != std::string_view::npos;
    };
    if (!text.empty() && std::ranges::all_of(text, plain)) return std::string(text);
    std::string word = "'";
    for (const char c : text)
        word += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return word + "'";
}

} // namespace refreshlab
