#pragma once

#include "ui/scene/landscape/cell_colours.h"
#include "ui/scene/landscape/cell_values.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace refreshlab::ui {

/// Cells [first_row, last_row) x [first_column, last_column) of a landscape's picture.
struct CellRegion {
    int64_t first_row = 0, last_row = 0, first_column = 0, last_column = 0;
    [[nodiscard]] bool contains(const CellRegion& other) const {
        return first_row <= other.first_row && last_row >= other.last_row &&
               first_column <= other.first_column && last_column >= other.last_column;
    }
    friend bool operator==(const CellRegion&, const CellRegion&) = default;
};

/// A part of the picture, reduced until it fits: one value for `block` x `block` cells.
struct CellImage {
    CellRegion region; ///< what it shows; begins at multiples of `block`
    int64_t block = 1;
    int64_t rows = 0, columns = 0;
    std::vector<float>
        values; ///< [rows][columns]; absent outside the triangle and where nothing was computed
};

/// The triangle of a landscape's values at full size and at halves of it, each the mean of 2 x 2 blocks: the mean along a
/// staircase is what a policy loses, so means are what a person should see. NaN wins over numbers, absent loses.
/// Levels from 1 on are kept (a third of the finest, so 70 MB for 10,000 steps); the finest is read from the landscape.
/// Threads  immutable once made; any thread.
class CellPyramid {
public:
    /// Cost: one pass over all cells.
    CellPyramid(std::shared_ptr<const Landscape> landscape, const CellValue& value);

    [[nodiscard]] int64_t size() const { return m_rows.size(); } ///< cells a side
    /// Of all cells that are known, by a sample of some ten thousand; the extent is exact.
    [[nodiscard]] const CellSpread& spread() const { return m_spread; }
    /// The region with as few halvings as `texels` a side allow.
    [[nodiscard]] CellImage image(CellRegion region, int64_t texels) const;
    /// Cells a side that one value of such an image stands for: a power of 2.
    [[nodiscard]] static int64_t block_for(const CellRegion& region, int64_t texels);

private:
    struct Level {
        int64_t size = 0;          ///< blocks a side
        std::vector<float> values; ///< the rows one behind the other, each from its diagonal on
        [[nodiscard]] size_t index(int64_t row, int64_t column) const {
            return static_cast<size_t>(row * size - row * (row - 1) / 2 + column - row);
        }
    };
    /// The mean of up to four blocks of `side` cells a side, by how many cells each has.
    [[nodiscard]] Level halve(const Level& finer, int64_t side) const;

    CellRows m_rows;
    std::vector<Level> m_levels; ///< of blocks of 2, 4, 8, ... cells
    CellSpread m_spread;
};

} // namespace refreshlab::ui
