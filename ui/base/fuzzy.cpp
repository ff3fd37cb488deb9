#include "ui/base/fuzzy.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

namespace refreshlab::ui {

std::string ascii_lower(std::string_view text) {
    std::string small(text);
    for (char& c : small)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return small;
}

namespace {

char lower(char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

bool begins_word(std::string_view text, size_t i) {
    return i == 0 || !std::isalnum(static_cast<unsigned char>(text[i - 1]));
}

} // namespace

std::optional<int> fuzzy_score(std::string_view query, std::string_view text) {
    std::string letters;
    for (const char c : query)
        if (c != ' ') letters.push_back(lower(c));
    if (letters.empty()) return 0;
    // best[i]: best score of the letters so far with the last of them at text[i]. O(letters * text^2) on labels of some
    // 40 characters.
    constexpr int none = -1000000;
    std::vector<int> best(text.size(), none);
    for (size_t l = 0; l < letters.size(); ++l) {
        std::vector<int> next(text.size(), none);
        for (size_t i = 0; i < text.size(); ++i) {
            if (lower(text[i]) != letters[l]) continue;
            const int here = begins_word(text, i) ? 10 : 1;
            if (l == 0) {
                next[i] = here - static_cast<int>(i) / 4;
                continue;
            }
            for (size_t before = 0; before < i; ++before) {
                if (best[before] == none) continue;
                const int run = before + 1 == i ? 12 : 0;
                next[i] = std::max(next[i], best[before] + here + run);
            }
        }
        best = std::move(next);
    }
    const auto top = std::ranges::max_element(best);
    if (top == best.end() || *top == none) return std::nullopt;
    return *top;
}

} // namespace refreshlab::ui
