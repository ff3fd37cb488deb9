#pragma once

#include "engine/record/recording/recording.h"
#include "ui/scene/text/step_marks.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refreshlab::ui {

/// Text of the generated tokens [first, last], counted from 1, as the tokenizer's bytes.
[[nodiscard]] std::string text_of_tokens(const Recording& recording, int64_t first, int64_t last);
/// Id of y_token, 1 <= token <= steps + 1; -1 where the run chose none.
[[nodiscard]] int32_t generated_token(const Recording& recording, int64_t token);

/// Finds words in the generated text, across tokens, and in the notes beside it. The case of ASCII letters does not count. No ImGui in here.
class TextFinder {
public:
    /// Tokens first to last that hold a match, counted from 1.
    struct Match {
        int64_t first = 0, last = 0;
        friend bool operator==(const Match&, const Match&) = default;
    };
    /// Once a frame. Cost: the new tokens; with another query, the whole text.
    /// \param tokens  y_1 .. y_tokens are known
    /// \param marks   of the recording: a note that holds the words is a match at its tokens; null: none is looked at
    void update(const std::shared_ptr<const Recording>& recording, int64_t tokens, std::string_view query,
                const StepMarks* marks = nullptr);
    [[nodiscard]] const std::vector<Match>& matches() const { return m_matches; } ///< in order
    [[nodiscard]] size_t in_notes() const { return m_in_notes.size(); }           ///< of the matches
    /// The first match that begins after `token`, or the last one that begins before it; at the end it goes on at the other end.
    /// Null where there is none.
    [[nodiscard]] const Match* beside(int64_t token, bool forward) const;

private:
    void search(size_t from);
    void search_notes(const StepMarks& marks);

    std::shared_ptr<const Recording> m_recording;
    std::string m_text, m_query; ///< both in lower case
    std::vector<size_t> m_begin; ///< of each token in the text
    std::vector<Match> m_in_text, m_in_notes;
    std::vector<Match> m_matches; ///< both, by their first token
    std::optional<std::pair<uint64_t, size_t>>
        m_notes_of;        ///< revision and number of the notes that were looked at
    size_t m_searched = 0; ///< no match begins before it that is not in the list
};

} // namespace refreshlab::ui
