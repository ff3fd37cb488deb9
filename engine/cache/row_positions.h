#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace refreshlab {

/// Positions of the rows of a block, ascending from row to row. Rows may be let go, and keep their place. Neighbours are kept as runs, so a
/// stretch of the text costs 8 bytes.
class RowPositions {
public:
    /// \param positions  of row 0, 1, ...; ascending, below 2^31                                            (asserted)
    explicit RowPositions(std::span<const int64_t> positions);

    [[nodiscard]] int64_t rows() const { return m_rows; }                 ///< those that were let go too
    [[nodiscard]] bool has_any(std::span<const int64_t> positions) const; ///< \param positions  ascending
    /// Every row that is held, ascending. \param see  see(row, position)
    template <typename See>
    void each(const See& see) const {
        int64_t row = 0;
        for (const Run& run : m_runs) {
            for (int64_t i = 0; i < run.n && run.first >= 0; ++i)
                see(row + i, run.first + i);
            row += run.n;
        }
    }
    [[nodiscard]] bool empty() const; ///< all were let go
    [[nodiscard]] bool all_held() const { return m_all_held; }
    [[nodiscard]] int64_t last() const; ///< position of the last row that is held, -1: none is
    /// Lets the rows of these positions go, as far as they are here. \param positions  ascending
    void let_go(std::span<const int64_t> positions);
    [[nodiscard]] int64_t bytes() const { return std::ssize(m_runs) * static_cast<int64_t>(sizeof(Run)); }

private:
    struct Run {
        int32_t first; ///< position of its first row; -1: rows that were let go
        int32_t n;
    };
    void add(int64_t position); ///< of the next row

    std::vector<Run> m_runs;
    int64_t m_rows = 0;
    bool m_all_held = true;
};

} // namespace refreshlab
