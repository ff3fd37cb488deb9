#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace refreshlab {

/// What stands at one place of a byte string.
struct Utf8Step {
    enum class Kind {
        character, ///< a well-formed sequence of `length` bytes
        truncated, ///< the end of the text cuts a sequence that could become well-formed; `length` is what there is
        ill_formed ///< can never become a character; `length` is the maximal subpart (1 to 3 bytes), one U+FFFD
    };
    Kind kind;
    size_t length;
    char32_t code_point; ///< U+FFFD unless kind == character
};

/// \param offset  < text.size()
[[nodiscard]] Utf8Step utf8_step(std::string_view text, size_t offset);

/// \param code_point  a Unicode scalar value
void append_utf8(std::string& out, char32_t code_point);

/// Offset of the first byte that is not well-formed UTF-8 (Unicode 15, table 3-7), or nothing.
[[nodiscard]] std::optional<size_t> first_invalid_utf8(std::string_view text);

/// Unicode code points of text; each ill-formed byte counts as one.
[[nodiscard]] int64_t count_code_points(std::string_view text);

/// Turns token bytes into text as they come: holds back the bytes of an unfinished character, replaces bytes that can
/// never become one by U+FFFD.
class Utf8Stream {
public:
    [[nodiscard]] std::string push(std::string_view bytes); ///< the text that is complete now
    [[nodiscard]] std::string finish();                     ///< what is left, unfinished bytes as U+FFFD

private:
    std::string m_pending;
};

/// For people: newlines, tabs, control bytes and bytes outside UTF-8 made visible ("\n", "\xE2"), at most max_chars.
[[nodiscard]] std::string visible_text(std::string_view bytes, size_t max_chars = SIZE_MAX);
/// The same for a message of several lines: newlines stay, each line is a visible_text() of at most max_chars. So a message
/// may quote a file, and what stands in the file cannot move the cursor or hide other text.
[[nodiscard]] std::string visible_lines(std::string_view bytes, size_t max_chars = SIZE_MAX);
/// Running text for a terminal: control characters other than newline and tab, and bytes outside UTF-8, made visible as
/// "\x1B"; everything else as it is.
[[nodiscard]] std::string terminal_text(std::string_view bytes);

} // namespace refreshlab
