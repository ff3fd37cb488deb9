#pragma once

#include "engine/cache/coded_head.h"
#include "engine/cache/row_store.h"

#include <array>
#include <cstdint>

namespace refreshlab {

/// Entries of one head of a CodedPool as attention reads them on the host: row by row, in stretches that need no copy, or by products with
/// the codes themselves. Blocks that come next are asked for ahead, because each stands somewhere else in memory.
class CodedHeadReader final : public kernels::CodedEntries {
public:
    /// \param head, rows  what is read; they outlive the reader  \param head_dim  numbers of a row
    CodedHeadReader(const CodedHead& head, const std::array<RowStore, 2>& rows, int64_t head_dim)
        : m_head(head)
        , m_rows(rows)
        , m_head_dim(head_dim) {}

    void read(bool values, const int64_t* places, int64_t n, int64_t first, int64_t channels,
              float* to) const override;
    /// As read(), of what is in blocks; the rest of `to` stays as it is.
    void decode(bool values, const int64_t* places, int64_t n, int64_t first, int64_t channels,
                float* to) const;

    [[nodiscard]] int64_t turned_width(bool values) const override;
    [[nodiscard]] Stretch stretch(bool values, const int64_t* places, int64_t n,
                                  int64_t most_made) const override;
    void sort(bool values, const int64_t* places, int64_t n, Sorted& to) const override;
    void read_turned(bool values, const int64_t* places, int64_t n, float* to) const override;
    [[nodiscard]] bool dots(const Some& some, const float* x, int64_t x_stride, int64_t rows, float* y,
                            int64_t y_stride) const override;
    [[nodiscard]] bool weighted_sum(const Some& some, const float* p, int64_t p_stride, int64_t rows,
                                    float* acc, int64_t acc_stride) const override;
    void turn(const float* query, float* to) const override;
    void turn_back(const float* sum, float* to) const override;

private:
    [[nodiscard]] const CodedHalf& half(bool values) const { return m_head.halves[values ? 1 : 0]; }
    [[nodiscard]] StoredAs stored_as() const { return stored_type(m_rows[0].dtype()); }
    [[nodiscard]] BlockShape shape_of(const CodedBlock& block) const {
        return {block.positions.rows(), m_head_dim, stored_as()};
    }
    /// Rows of one block, or slots, one after the other.
    [[nodiscard]] Stretch first_run(bool values, const int64_t* places, int64_t n, int64_t most_made) const;
    /// Calls visit(block, part, i) for rows of blocks that follow one another, entries from i on. \return whether it could be done: all
    /// are rows that one codec has coded, and the first call says so
    template <typename Visit>
    [[nodiscard]] bool for_runs(const Some& some, const Visit& visit) const;

    const CodedHead& m_head;
    const std::array<RowStore, 2>& m_rows; ///< of K and V: what is not encoded
    int64_t m_head_dim;
};

} // namespace refreshlab
