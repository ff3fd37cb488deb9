#include "engine/tasks/fact_reader.h"

#include "engine/tasks/almanac.h"

#include <algorithm>

namespace refreshlab {

namespace {

constexpr size_t longest_head = 64; // bytes; what is longer is no head

/// Letters, digits, hyphen, apostrophe and everything beyond ASCII (a character may be split over tokens).
bool in_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '\'' || static_cast<unsigned char>(c) >= 0x80;
}

} // namespace

std::optional<FactReader::Word> FactReader::take(char c) {
    std::optional<Word> ended;
    if (m_where == Where::list) {
        if (in_word(c)) {
            if (m_word.size() <= longest_word) m_word += c;
            return ended;
        }
        ended = end_word();
        if (c == ',') m_words = 0;
        if (c == '.') m_where = Where::rest;
    }
    if (c == '\n') {
        m_where = Where::head;
        m_head.clear();
    } else if (m_where == Where::head) {
        if (c == ':') {
            read_head();
        } else if (m_head.size() == longest_head && !m_roll_calls) {
            m_where = Where::rest;
        } else {
            if (m_head.size() == longest_head) m_head.erase(0, 1);
            m_head += c;
        }
    }
    return ended;
}

void FactReader::read_head() {
    const auto fact = std::ranges::find(attribute_heads, std::string_view(m_head));
    m_where = Where::list;
    m_words = 0;
    m_attribute.reset();
    if (m_head.ends_with("company") || (m_roll_calls && m_head.ends_with("Roll call"))) {
        m_names.clear();
    } else if (fact != attribute_heads.end()) {
        m_attribute = static_cast<size_t>(fact - attribute_heads.begin());
    } else {
        m_where = Where::rest;
    }
}

std::optional<FactReader::Word> FactReader::end_word() {
    std::optional<Word> word;
    if (m_word.empty()) return word;
    if (m_words == 0) {
        m_role = m_word;
    } else if (m_words == 1) {
        if (!m_attribute) m_names[m_role] = m_word;
        if (const auto name = m_names.find(m_role); name != m_names.end())
            word = {name->second, m_word, m_attribute};
    }
    if (m_words < 2) ++m_words;
    m_word.clear();
    return word;
}

} // namespace refreshlab
