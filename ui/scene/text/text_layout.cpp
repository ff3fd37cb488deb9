#include "ui/scene/text/text_layout.h"

#include <algorithm>
#include <utility>

namespace refreshlab::ui {
namespace {

/// Length of the well-formed UTF-8 sequence at the start of `s` (1-4), 0 if it can never become one, -1 if it is
/// unfinished (Unicode 15, table 3-7).
int sequence_length(std::string_view s) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
    const unsigned first = byte(0);
    if (first < 0x80) return 1;
    const int length = first >= 0xC2 && first <= 0xDF   ? 2
                       : first >= 0xE0 && first <= 0xEF ? 3
                       : first >= 0xF0 && first <= 0xF4 ? 4
                                                        : 0;
    for (int i = 1; i < length; ++i) {
        if (static_cast<size_t>(i) >= s.size()) return -1;
        unsigned low = 0x80, high = 0xBF;
        if (i == 1) {
            if (first == 0xE0) low = 0xA0;
            if (first == 0xED) high = 0x9F;
            if (first == 0xF0) low = 0x90;
            if (first == 0xF4) high = 0x8F;
        }
        const unsigned c = byte(static_cast<size_t>(i));
        if (c < low || c > high) return 0;
    }
    return length;
}

std::string escaped(unsigned char c) {
    if (c == '\t') return "\\t";
    if (c == '\r') return "\\r";
    constexpr char hex[] = "0123456789ABCDEF";
    return {'\\', 'x', hex[c >> 4], hex[c & 15]};
}

/// Ideographs, kana, hangul, full-width forms: scripts that break between any two characters.
bool breaks_anywhere(std::string_view s) {
    return s.size() >= 3 && static_cast<unsigned char>(s[0]) >= 0xE3;
}

/// A token as chunks of one kind each.
struct Chunk {
    TextLayout::Kind kind;
    std::string text;
    size_t spaces = 0; ///< Kind::space
};

void add_to(std::vector<Chunk>& chunks, TextLayout::Kind kind, std::string_view text) {
    const bool joins = kind == TextLayout::Kind::text || kind == TextLayout::Kind::escape;
    if (joins && !chunks.empty() && chunks.back().kind == kind) {
        chunks.back().text += text;
    } else if (kind == TextLayout::Kind::space && !chunks.empty() && chunks.back().kind == kind) {
        ++chunks.back().spaces;
    } else {
        chunks.push_back({kind, std::string(text), kind == TextLayout::Kind::space ? size_t{1} : size_t{0}});
    }
}

/// \param unfinished  bytes that earlier tokens left over; on return what this token leaves over
std::vector<Chunk> chunks_of(std::string_view bytes, std::string& unfinished) {
    using Kind = TextLayout::Kind;
    std::vector<Chunk> chunks;
    std::string joined = unfinished + std::string(bytes);
    size_t shown = unfinished.size(); // bytes before this one were drawn by earlier tokens
    std::string_view rest = joined;
    unfinished.clear();
    while (!rest.empty()) {
        const size_t at = joined.size() - rest.size();
        const int length = sequence_length(rest);
        if (length == 1) {
            const char c = rest[0];
            if (c == '\n') {
                add_to(chunks, Kind::newline, {});
            } else if (c == ' ') {
                add_to(chunks, Kind::space, {});
            } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
                add_to(chunks, Kind::escape, escaped(static_cast<unsigned char>(c)));
            } else {
                add_to(chunks, Kind::text, rest.substr(0, 1));
            }
            rest.remove_prefix(1);
        } else if (length > 1) {
            add_to(chunks, Kind::text, rest.substr(0, static_cast<size_t>(length)));
            rest.remove_prefix(static_cast<size_t>(length));
        } else if (length < 0) {
            unfinished = std::string(rest);
            for (size_t i = std::max(at, shown); i < joined.size(); ++i)
                add_to(chunks, Kind::escape, escaped(static_cast<unsigned char>(joined[i])));
            break;
        } else {
            if (at >= shown) add_to(chunks, Kind::escape, escaped(static_cast<unsigned char>(rest[0])));
            rest.remove_prefix(1);
        }
    }
    return chunks;
}

} // namespace

void TextLayout::reset(Style style, Measure measure, float pen) {
    m_style = std::move(style);
    m_measure = std::move(measure);
    m_pool.clear();
    m_fragments.clear();
    m_line_first.assign(1, 0);
    m_token_first.clear();
    m_token_last.clear();
    m_unfinished.clear();
    m_x = pen;
    m_word_first = 0;
    m_soft_line = m_joined = false;
}

void TextLayout::append(std::string_view bytes, bool special) {
    m_token_first.push_back(m_fragments.size());
    add_all(bytes, special, m_unfinished);
    m_token_last.push_back(m_fragments.size());
    m_fragments[m_token_first.back()].starts_token = true;
    m_fragments.back().ends_token = true;
}

void TextLayout::append_aside(std::string_view bytes, bool special) {
    std::string unfinished; // it completes no character of the text, and leaves none over
    m_aside = true;
    add_all(bytes, special, unfinished);
    m_aside = false;
}

void TextLayout::add_all(std::string_view bytes, bool special, std::string& unfinished) {
    std::vector<Chunk> chunks;
    if (special) {
        unfinished.clear();
        chunks.push_back({Kind::special, std::string(bytes), 0});
    } else {
        chunks = chunks_of(bytes, unfinished);
    }
    if (chunks.empty()) chunks.push_back({Kind::escape, "\\0", 0}); // an id without bytes: still a token
    float gap = 0;
    bool break_before = special;
    for (size_t i = 0; i < chunks.size(); ++i) {
        const Chunk& chunk = chunks[i];
        if (chunk.kind == Kind::space) {
            const bool leads_text = i + 1 < chunks.size() && chunks[i + 1].kind != Kind::newline;
            if (leads_text) {
                gap = m_style.space * static_cast<float>(chunk.spaces);
                break_before = true;
                continue;
            }
            std::string dots;
            for (size_t n = 0; n < chunk.spaces; ++n)
                dots += m_style.dot;
            add(dots, Kind::space, 0, true);
            m_joined = false;
        } else if (chunk.kind == Kind::newline) {
            add(m_style.newline, Kind::newline, gap, false);
            if (m_aside) { // it was none of the text
                m_joined = false;
            } else {
                break_line();
                m_soft_line = false;
            }
        } else {
            add(chunk.text, chunk.kind, gap, break_before || breaks_anywhere(chunk.text));
            if (special) m_joined = false;
        }
        gap = 0;
        break_before = false;
    }
}

void TextLayout::break_line() {
    m_line_first.push_back(m_fragments.size());
    m_x = 0;
    m_joined = false;
    m_soft_line = true;
}

void TextLayout::place(std::string_view text, Kind kind, float gap, float width) {
    Fragment f;
    f.token = m_aside ? -1 : static_cast<int32_t>(m_token_first.size()) - 1;
    f.line = static_cast<int32_t>(m_line_first.size()) - 1;
    f.gap = gap;
    f.x = m_x + gap;
    f.width = width;
    f.begin = static_cast<uint32_t>(m_pool.size());
    f.size = static_cast<uint32_t>(text.size());
    f.kind = kind;
    m_pool += text;
    m_fragments.push_back(f);
    m_x = f.x + width;
    m_joined = true;
}

void TextLayout::add(std::string_view text, Kind kind, float gap, bool may_break_before) {
    const float width = m_measure(text);
    const auto at_line_start = [&] { return m_fragments.size() == m_line_first.back(); };
    if (at_line_start() && m_soft_line) gap = 0;
    if (!m_joined || may_break_before || at_line_start()) m_word_first = m_fragments.size();
    if (m_x + gap + width > m_style.width && !at_line_start()) {
        const bool word_moves = m_word_first > m_line_first.back() && m_word_first < m_fragments.size();
        if (word_moves) {
            // The whole word goes to the next line, with the pieces that were already placed.
            Fragment& head = m_fragments[m_word_first];
            const float shift = head.x;
            head.gap = 0;
            m_line_first.push_back(m_word_first);
            for (size_t i = m_word_first; i < m_fragments.size(); ++i) {
                m_fragments[i].x -= shift;
                m_fragments[i].line = static_cast<int32_t>(m_line_first.size()) - 1;
            }
            m_x -= shift;
            m_soft_line = true;
        }
        if (m_x + gap + width > m_style.width && !at_line_start()) {
            break_line();
            gap = 0;
            m_word_first = m_fragments.size();
        }
    }
    if (gap + width <= m_style.width || !at_line_start()) {
        place(text, kind, gap, width);
    } else {
        split_long(text, kind);
    }
}

void TextLayout::split_long(std::string_view text, Kind kind) {
    // Wider than a line by itself: as many characters per line as fit, at least one.
    while (!text.empty()) {
        size_t fits = 0;
        float width = 0;
        for (size_t at = 0; at < text.size();) {
            const int length = std::max(1, sequence_length(text.substr(at)));
            const float next = m_measure(text.substr(0, at + static_cast<size_t>(length)));
            if (next > m_style.width && fits > 0) break;
            at += static_cast<size_t>(length);
            fits = at;
            width = next;
        }
        place(text.substr(0, fits), kind, 0, width);
        text.remove_prefix(fits);
        if (!text.empty()) break_line();
    }
    m_word_first = m_line_first.back();
}

TextLayout::Range TextLayout::line(size_t index) const {
    return {m_line_first[index],
            index + 1 < m_line_first.size() ? m_line_first[index + 1] : m_fragments.size()};
}

TextLayout::Range TextLayout::token(size_t index) const {
    return {m_token_first[index], m_token_last[index]};
}

std::optional<std::pair<int32_t, int32_t>> TextLayout::tokens_in(Range fragments) const {
    std::optional<std::pair<int32_t, int32_t>> found;
    for (size_t i = fragments.first; i < fragments.last; ++i)
        if (const int32_t token = m_fragments[i].token; token >= 0)
            found = {found ? found->first : token, token};
    return found;
}

int32_t TextLayout::token_at(size_t index, float x) const {
    if (index >= num_lines()) return -1;
    const Range r = line(index);
    for (size_t i = r.first; i < r.last; ++i) {
        const Fragment& f = m_fragments[i];
        if (x >= f.x - f.gap && x < f.x + f.width) return f.token;
    }
    return -1;
}

} // namespace refreshlab::ui
