#include "ui/scene/text/text_finder.h"

#include <algorithm>
#include <cctype>

namespace refreshlab::ui {

namespace {

std::string lower(std::string_view text) {
    std::string result(text);
    for (char& c : result)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return result;
}

} // namespace

int32_t generated_token(const Recording& recording, int64_t token) {
    return token == 1 ? recording.info().first_token : recording.step(token - 1).next_token_id;
}

std::string text_of_tokens(const Recording& recording, int64_t first, int64_t last) {
    std::string text;
    for (int64_t token = first; token <= last; ++token) {
        const int32_t id = generated_token(recording, token);
        if (id >= 0 && !recording.tokens().is_special(id)) text += recording.tokens().token_bytes(id);
    }
    return text;
}

void TextFinder::update(const std::shared_ptr<const Recording>& recording, int64_t tokens,
                        std::string_view query) {
    if (recording != m_recording || static_cast<int64_t>(m_begin.size()) > tokens) {
        m_recording = recording;
        m_text.clear();
        m_begin.clear();
        m_matches.clear();
        m_searched = 0;
    }
    if (const std::string wanted = lower(query); wanted != m_query) {
        m_query = wanted;
        m_matches.clear();
        m_searched = 0;
    }
    if (!recording) return;
    while (static_cast<int64_t>(m_begin.size()) < tokens) {
        m_begin.push_back(m_text.size());
        const auto token = static_cast<int64_t>(m_begin.size());
        m_text += lower(text_of_tokens(*recording, token, token));
    }
    search(m_searched);
}

void TextFinder::search(size_t from) {
    if (m_query.empty()) return;
    for (size_t at = m_text.find(m_query, from); at != std::string::npos;
         at = m_text.find(m_query, at + m_query.size())) {
        const auto token_at = [&](size_t byte) {
            return std::ranges::upper_bound(m_begin, byte) - m_begin.begin();
        };
        m_matches.push_back({token_at(at), token_at(at + m_query.size() - 1)});
        m_searched = at + m_query.size();
    }
    // What is there so far holds no other match; one that is still half written begins in the last bytes.
    if (m_text.size() >= m_query.size())
        m_searched = std::max(m_searched, m_text.size() - m_query.size() + 1);
}

const TextFinder::Match* TextFinder::beside(int64_t token, bool forward) const {
    if (m_matches.empty()) return nullptr;
    if (forward) {
        const auto next = std::ranges::upper_bound(m_matches, token, {}, &Match::first);
        return next == m_matches.end() ? &m_matches.front() : &*next;
    }
    const auto next = std::ranges::lower_bound(m_matches, token, {}, &Match::first);
    return next == m_matches.begin() ? &m_matches.back() : &*(next - 1);
}

} // namespace refreshlab::ui
