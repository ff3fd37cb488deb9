#include "engine/text/jinja/jinja_search.h"

#include "engine/base/check.h"

namespace refreshlab::jinja {

namespace {

/// Byte i of a text, counted in the direction of the search.
char byte_at(std::string_view text, size_t i, TextSearch::From from) {
    return from == TextSearch::From::left ? text[i] : text[text.size() - 1 - i];
}

} // namespace

TextSearch::TextSearch(std::string_view wanted, From from, Work& work)
    : m_wanted(wanted)
    , m_from(from)
    , m_work(work) {
    RL_ASSERT(!wanted.empty());
    work.spend(wanted.size() * sizeof(size_t));
    m_border.assign(wanted.size(), 0);
    size_t border = 0;
    for (size_t i = 1; i < wanted.size(); ++i) {
        const char c = byte_at(wanted, i, from);
        while (border > 0 && c != byte_at(wanted, border, from))
            border = m_border[border - 1];
        if (c == byte_at(wanted, border, from)) ++border;
        m_border[i] = border;
    }
}

size_t TextSearch::find(std::string_view text) const {
    size_t matched = 0;
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = byte_at(text, i, m_from);
        while (matched > 0 && c != byte_at(m_wanted, matched, m_from))
            matched = m_border[matched - 1];
        if (c == byte_at(m_wanted, matched, m_from)) ++matched;
        if (matched == m_wanted.size()) {
            m_work.spend(i + 1);
            return m_from == From::left ? i + 1 - matched : text.size() - 1 - i;
        }
    }
    m_work.spend(text.size());
    return std::string_view::npos;
}

} // namespace refreshlab::jinja
