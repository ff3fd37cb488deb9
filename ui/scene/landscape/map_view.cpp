#include "ui/scene/landscape/map_view.h"

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

namespace {
constexpr double fewest_cells = 8;
} // namespace

void MapView::fit(int64_t cells) {
    m_cells = cells;
    m_left = m_top = 0;
    m_extent = static_cast<double>(std::max<int64_t>(cells, 1));
}

void MapView::zoom(double x, double y, double factor) {
    const double column = column_at(x), row = row_at(y),
                 all = static_cast<double>(std::max<int64_t>(m_cells, 1));
    m_extent = std::clamp(m_extent / factor, std::min(fewest_cells, all), all);
    m_left = column - x * m_extent;
    m_top = row - y * m_extent;
    keep_inside();
}

void MapView::pan(double dx, double dy) {
    m_left -= dx * m_extent;
    m_top -= dy * m_extent;
    keep_inside();
}

void MapView::reveal(double row, double column) {
    m_left = std::clamp(m_left, column + 1 - m_extent, column);
    m_top = std::clamp(m_top, row + 1 - m_extent, row);
    keep_inside();
}

void MapView::keep_inside() {
    const double most = std::max(0.0, static_cast<double>(m_cells) - m_extent);
    m_left = std::clamp(m_left, 0.0, most);
    m_top = std::clamp(m_top, 0.0, most);
}

CellRegion MapView::region() const {
    const auto first = [](double edge) { return static_cast<int64_t>(std::floor(edge)); };
    const auto last = [this](double edge) {
        return std::min(static_cast<int64_t>(std::ceil(edge)), m_cells);
    };
    return {first(m_top), last(m_top + m_extent), first(m_left), last(m_left + m_extent)};
}

} // namespace refreshlab::ui
