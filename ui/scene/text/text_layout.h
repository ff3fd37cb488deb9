#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refreshlab::ui {

/// Tokens as wrapped lines. Pieces of one word touch and stay together; lines break before spaces (and between ideographs);
/// newlines are honoured and shown; bytes that are part of a character show as \xE2, and the token that completes the
/// character shows it. Every token has at least one fragment, so every token can be seen and selected.
///
/// Appending costs O(1) per token; drawing looks only at the lines in sight. No ImGui in here: the caller measures text.
class TextLayout {
public:
    enum class Kind : uint8_t {
        text,
        space,   ///< a token (or its end) of spaces only: drawn as muted dots
        newline, ///< the mark of a line break, which follows
        escape,  ///< \xE2, \t: bytes that are no text by themselves
        special, ///< <|end|>
    };
    struct Fragment {
        int32_t token = 0; ///< index in order of append(); -1: of append_aside()
        int32_t line = 0;
        float x = 0, width = 0; ///< of the text
        float gap = 0;          ///< of this token's spaces before the text; [x - gap, x + width] is its box
        uint32_t begin = 0, size = 0; ///< text(), in bytes
        Kind kind = Kind::text;
        bool starts_token = false;
        bool ends_token = false;
    };
    using Measure = std::function<float(std::string_view)>;
    struct Style {
        float width = 400;                      ///< pixels of a line
        float space = 4;                        ///< width of a space
        std::string newline = "\\n", dot = "."; ///< marks of newlines and of single spaces
    };

    /// Drops everything; what is appended from now on is laid out with this.
    /// \param pen  where the first line begins
    void reset(Style style, Measure measure, float pen = 0);
    void append(std::string_view bytes, bool special);
    /// Words between the last token and the next that are no token of the text: they have no index, and no token's range holds them.
    void append_aside(std::string_view bytes, bool special);

    [[nodiscard]] size_t num_tokens() const { return m_token_first.size(); }
    [[nodiscard]] size_t num_lines() const { return m_line_first.size(); }
    [[nodiscard]] const std::vector<Fragment>& fragments() const { return m_fragments; }
    [[nodiscard]] std::string_view text(const Fragment& f) const { return {m_pool.data() + f.begin, f.size}; }
    /// Fragments [first, last) of a line, and of a token, without what stands aside behind it.
    struct Range {
        size_t first, last;
    };
    [[nodiscard]] Range line(size_t index) const;
    [[nodiscard]] Range token(size_t index) const;
    /// The first and the last token of fragments [first, last); nothing where these are no tokens.
    [[nodiscard]] std::optional<std::pair<int32_t, int32_t>> tokens_in(Range fragments) const;
    /// Token whose box holds x on a line; -1 where there is none.
    [[nodiscard]] int32_t token_at(size_t line, float x) const;
    [[nodiscard]] const Style& style() const { return m_style; }
    [[nodiscard]] float pen() const { return m_x; } ///< where the last line ends

private:
    void add_all(std::string_view bytes, bool special, std::string& unfinished);
    void add(std::string_view text, Kind kind, float gap, bool may_break_before);
    void place(std::string_view text, Kind kind, float gap, float width);
    void break_line();
    void split_long(std::string_view text, Kind kind);

    Style m_style;
    Measure m_measure;
    std::string m_pool; ///< texts of all fragments
    std::vector<Fragment> m_fragments;
    std::vector<size_t> m_line_first; ///< first fragment of each line
    std::vector<size_t> m_token_first, m_token_last;
    bool m_aside = false;     ///< what is placed now is no token
    std::string m_unfinished; ///< bytes of a character that is not complete yet
    float m_x = 0;            ///< pen
    size_t m_word_first = 0;  ///< first fragment of the word under way
    bool m_soft_line = false; ///< the present line began by wrapping: its leading space is dropped
    bool m_joined = false;    ///< the last fragment may be continued by the next without a break
};

} // namespace refreshlab::ui
