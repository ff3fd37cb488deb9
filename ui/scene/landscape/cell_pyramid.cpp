#include "ui/scene/landscape/cell_pyramid.h"

#include "engine/record/recording/step_record.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

namespace refreshlab::ui {

namespace {

/// Cells of the triangle in block (row, column) of `side` cells a side, of `size` cells a side in all.
int64_t cells_in(int64_t row, int64_t column, int64_t side, int64_t size) {
    const int64_t height = std::min(side, size - row * side), width = std::min(side, size - column * side);
    if (height <= 0 || width <= 0 || column < row) return 0;
    return column > row ? height * width : width * (width + 1) / 2;
}

/// A mean that grows: NaN wins, absent values do not count.
class Mean {
public:
    void add(float value, int64_t weight) {
        if (weight <= 0 || is_absent(value)) return;
        m_sum += static_cast<double>(value) * static_cast<double>(weight);
        m_weight += weight;
    }
    [[nodiscard]] float value() const {
        return m_weight > 0 ? static_cast<float>(m_sum / static_cast<double>(m_weight)) : absent();
    }

private:
    double m_sum = 0;
    int64_t m_weight = 0;
};

constexpr size_t sample_size = 20'000; // sorted within the frame that asks for a small landscape

} // namespace

CellPyramid::CellPyramid(std::shared_ptr<const Landscape> landscape, const CellValue& value)
    : m_rows(std::move(landscape), value) {
    // The finest kept level from two rows at a time, and every so many cells for the range.
    const int64_t n = size();
    Level first;
    first.size = (n + 1) / 2;
    first.values.reserve(static_cast<size_t>(first.size * (first.size + 1) / 2));
    const auto cells = static_cast<size_t>(n * (n + 1) / 2);
    const size_t stride = cells / sample_size + 1;
    std::vector<float> sample, upper, lower;
    size_t seen = 0;
    float least = std::numeric_limits<float>::max(), most = std::numeric_limits<float>::lowest();
    const auto look = [&](const std::vector<float>& row, int64_t j) {
        for (int64_t c = j; c < n; ++c) {
            const float cell = row[static_cast<size_t>(c)];
            const bool sampled = seen++ % stride == 0;
            if (!std::isfinite(cell)) continue;
            least = std::min(least, cell);
            most = std::max(most, cell);
            if (sampled) sample.push_back(cell);
        }
    };
    for (int64_t r = 0; r < first.size; ++r) {
        m_rows.read(2 * r, upper);
        look(upper, 2 * r);
        const bool both = 2 * r + 1 < n;
        if (both) {
            m_rows.read(2 * r + 1, lower);
            look(lower, 2 * r + 1);
        }
        for (int64_t c = r; c < first.size; ++c) {
            Mean mean;
            for (int64_t k = 2 * c; k < std::min(2 * c + 2, n); ++k) {
                mean.add(upper[static_cast<size_t>(k)], 1);
                if (both && k > 2 * r) mean.add(lower[static_cast<size_t>(k)], 1);
            }
            first.values.push_back(mean.value());
        }
    }
    if (!sample.empty())
        m_spread = CellSpread(std::move(sample), {static_cast<double>(least), static_cast<double>(most)});
    m_levels.push_back(std::move(first));
    for (int64_t side = 2; m_levels.back().size > 1; side *= 2)
        m_levels.push_back(halve(m_levels.back(), side));
}

CellPyramid::Level CellPyramid::halve(const Level& finer, int64_t side) const {
    Level level;
    level.size = (finer.size + 1) / 2;
    level.values.reserve(static_cast<size_t>(level.size * (level.size + 1) / 2));
    for (int64_t r = 0; r < level.size; ++r) {
        for (int64_t c = r; c < level.size; ++c) {
            Mean mean;
            for (int64_t row = 2 * r; row < std::min(2 * r + 2, finer.size); ++row)
                for (int64_t column = std::max(2 * c, row); column < std::min(2 * c + 2, finer.size);
                     ++column)
                    mean.add(finer.values[finer.index(row, column)], cells_in(row, column, side, size()));
            level.values.push_back(mean.value());
        }
    }
    return level;
}

int64_t CellPyramid::block_for(const CellRegion& region, int64_t texels) {
    const int64_t longest =
        std::max(region.last_row - region.first_row, region.last_column - region.first_column);
    int64_t block = 1;
    while ((longest + block - 1) / block > std::max<int64_t>(texels, 1))
        block *= 2;
    return block;
}

CellImage CellPyramid::image(CellRegion region, int64_t texels) const {
    CellImage image;
    const int64_t n = size();
    image.block = block_for(region, texels);
    size_t level = 0; // 0: the cells themselves
    while ((int64_t{1} << level) < image.block)
        ++level;
    level = std::min(level, m_levels.size());
    image.block = int64_t{1} << level;
    const auto down = [&](int64_t cell) { return std::clamp<int64_t>(cell, 0, n) / image.block; };
    const auto up = [&](int64_t cell) {
        return (std::clamp<int64_t>(cell, 0, n) + image.block - 1) / image.block;
    };
    const int64_t row0 = down(region.first_row), row1 = up(region.last_row),
                  column0 = down(region.first_column), column1 = up(region.last_column);
    image.region = {row0 * image.block, row1 * image.block, column0 * image.block, column1 * image.block};
    image.rows = row1 - row0;
    image.columns = column1 - column0;
    image.values.assign(static_cast<size_t>(image.rows * image.columns), absent());
    std::vector<float> row;
    for (int64_t r = row0; r < row1; ++r) {
        float* out = image.values.data() + (r - row0) * image.columns;
        const int64_t from = std::max(column0, r);
        if (from >= column1) continue;
        if (level == 0) {
            m_rows.read(r, row);
            std::copy(row.begin() + from, row.begin() + column1, out + (from - column0));
        } else {
            const Level& blocks = m_levels[level - 1];
            const float* values = blocks.values.data() + blocks.index(r, from);
            std::copy(values, values + (column1 - from), out + (from - column0));
        }
    }
    return image;
}

} // namespace refreshlab::ui
