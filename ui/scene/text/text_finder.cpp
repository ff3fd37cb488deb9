#include "ui/scene/text/text_finder.h"

#include "ui/base/fuzzy.h"

#include <algorithm>

namespace refreshlab::ui {

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
                        std::string_view query, const StepMarks* marks) {
    const auto begin_anew = [&] {
        m_in_text.clear();
        m_in_notes.clear();
        m_matches.clear();
        m_notes_of.reset();
        m_searched = 0;
    };
    if (recording != m_recording || static_cast<int64_t>(m_begin.size()) > tokens) {
        m_recording = recording;
        m_text.clear();
        m_begin.clear();
        begin_anew();
    }
    if (const std::string wanted = ascii_lower(query); wanted != m_query) {
        m_query = wanted;
        begin_anew();
    }
    if (!recording) return;
    while (static_cast<int64_t>(m_begin.size()) < tokens) {
        m_begin.push_back(m_text.size());
        const auto token = static_cast<int64_t>(m_begin.size());
        m_text += ascii_lower(text_of_tokens(*recording, token, token));
    }
    const size_t before = m_in_text.size();
    search(m_searched);
    const bool other_notes =
        marks && m_notes_of != std::pair(marks->notes_revision(), marks->count(MarkLane::note));
    if (other_notes) search_notes(*marks);
    if (m_in_text.size() == before && !other_notes) return;
    m_matches = m_in_text;
    m_matches.insert(m_matches.end(), m_in_notes.begin(), m_in_notes.end());
    std::ranges::stable_sort(m_matches, {}, &Match::first);
}

/// Step t stands at the token that it chose, y_{t+1}.
void TextFinder::search_notes(const StepMarks& marks) {
    m_notes_of = std::pair(marks.notes_revision(), marks.count(MarkLane::note));
    m_in_notes.clear();
    for (size_t i = 0; !m_query.empty() && i < marks.count(MarkLane::note); ++i)
        if (const StepNote& note = marks.note(i).note;
            ascii_lower(note.text).find(m_query) != std::string::npos)
            m_in_notes.push_back({note.first_step + 1, note.last_step + 1});
}

void TextFinder::search(size_t from) {
    if (m_query.empty()) return;
    for (size_t at = m_text.find(m_query, from); at != std::string::npos;
         at = m_text.find(m_query, at + m_query.size())) {
        const auto token_at = [&](size_t byte) {
            return std::ranges::upper_bound(m_begin, byte) - m_begin.begin();
        };
        m_in_text.push_back({token_at(at), token_at(at + m_query.size() - 1)});
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
