#pragma once

#include "ui/scene/landscape/cell_pyramid.h"

#include <cstdint>

namespace refreshlab::ui {

/// Which part of a picture of n x n cells is in sight: as many cells down its box as across it. Rows grow downwards. Zooming keeps
/// the cell under the mouse where it is.
class MapView {
public:
    /// The whole picture; also the first time a size is seen.
    void fit(int64_t cells);
    /// A landscape of another size: begins with the whole. Nothing happens while it stays the same.
    void show(int64_t cells) {
        if (cells != m_cells) fit(cells);
    }
    /// \param x, y    0..1 in the box, of what stays where it is
    /// \param factor  above 1 = closer; from the whole picture down to some cells
    void zoom(double x, double y, double factor);
    /// By parts of the box; stays inside the picture.
    void pan(double dx, double dy);
    /// Moves as little as needed to have this cell in sight.
    void reveal(double row, double column);

    [[nodiscard]] double left() const { return m_left; }
    [[nodiscard]] double top() const { return m_top; }
    [[nodiscard]] double extent() const { return m_extent; } ///< cells across the box
    [[nodiscard]] bool whole() const { return m_extent >= static_cast<double>(m_cells); }
    /// 0..1 in the box, of a place in cells.
    [[nodiscard]] double x_of(double column) const { return (column - m_left) / m_extent; }
    [[nodiscard]] double y_of(double row) const { return (row - m_top) / m_extent; }
    [[nodiscard]] double column_at(double x) const { return m_left + x * m_extent; }
    [[nodiscard]] double row_at(double y) const { return m_top + y * m_extent; }
    /// Cells that are in sight, cut ones included.
    [[nodiscard]] CellRegion region() const;

private:
    void keep_inside();

    int64_t m_cells = 0;
    double m_left = 0, m_top = 0, m_extent = 1;
};

} // namespace refreshlab::ui
