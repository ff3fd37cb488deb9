#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace refreshlab::ui {

/// Two growing texts laid beside each other, so that a token which only one of them has does not make all that follows differ.
///
/// What is kept to  the fewest edits (a token other, more, or less: one each), and among those the most equal tokens: exactly while
///                  neither text has more than `window` tokens after the last place where they are known to agree, window by window
///                  beyond. So a piece of more than half a window that one text has alone is found as other tokens.
/// Ends             free: what one text has after the other's end is not compared.
/// Order            the result depends on the two texts alone, not on how they came.
/// Cost             of a new token O(window^2) while texts differ, O(1) where they agree; 8 bytes a token.
class TokenAlignment {
public:
    static constexpr size_t window = 256;

    void append_first(int32_t token) { append(m_sides[0], token); }
    void append_second(int32_t token) { append(m_sides[1], token); }
    /// After tokens were appended; what follows speaks of the texts as they were then.
    void align();

    enum class Side : uint8_t {
        first,
        second,
    };
    [[nodiscard]] size_t size(Side side) const { return of(side).tokens.size(); }
    /// The token of the other text in this one's place: an equal one or another. Nothing: it has none there. \param index  from 0
    [[nodiscard]] std::optional<size_t> partner(Side side, size_t index) const;
    /// Whether the other text has another token in its place, or none; false where nothing is compared.
    [[nodiscard]] bool differs(Side side, size_t index) const;
    [[nodiscard]] size_t compared(Side side) const {
        return of(side).aligned;
    } ///< tokens before its free end
    [[nodiscard]] int64_t edits() const { return m_settled_edits + m_open_edits; }

private:
    struct Text {
        std::vector<int32_t> tokens, partners; ///< -1: none
        size_t settled = 0;                    ///< tokens whose partners stay as they are
        size_t aligned = 0;                    ///< tokens that have been compared
    };
    static void append(Text& text, int32_t token);
    [[nodiscard]] const Text& of(Side side) const { return m_sides[static_cast<size_t>(side)]; }
    void skip_equal();
    void fill_costs(size_t rows, size_t columns);
    [[nodiscard]] std::vector<std::pair<size_t, size_t>> path(size_t rows, size_t columns) const;
    int64_t put(const std::vector<std::pair<size_t, size_t>>& path, size_t points);

    Text m_sides[2];
    int64_t m_settled_edits = 0, m_open_edits = 0;
    std::vector<int32_t> m_costs; ///< [rows + 1, columns + 1] of the window: edits * unit - equal tokens
};

} // namespace refreshlab::ui
