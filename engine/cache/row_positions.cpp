#include "engine/cache/row_positions.h"

#include "engine/base/check.h"

#include <algorithm>
#include <limits>

namespace refreshlab {

RowPositions::RowPositions(std::span<const int64_t> positions) {
    for (const int64_t position : positions) {
        RL_ASSERT(position >= 0 && position <= std::numeric_limits<int32_t>::max());
        add(position);
    }
}

void RowPositions::add(int64_t position) {
    ++m_rows;
    m_all_held = m_all_held && position >= 0;
    if (!m_runs.empty()) {
        Run& last = m_runs.back();
        const bool goes_on =
            position < 0 ? last.first < 0 : last.first >= 0 && last.first + last.n == position;
        if (goes_on) {
            ++last.n;
            return;
        }
    }
    m_runs.push_back({static_cast<int32_t>(position), 1});
}

bool RowPositions::has_any(std::span<const int64_t> positions) const {
    return std::ranges::any_of(m_runs, [&](const Run& run) {
        if (run.first < 0) return false;
        const auto at = std::ranges::lower_bound(positions, int64_t{run.first});
        return at != positions.end() && *at < int64_t{run.first} + run.n;
    });
}

bool RowPositions::empty() const {
    return std::ranges::all_of(m_runs, [](const Run& run) { return run.first < 0; });
}

int64_t RowPositions::last() const {
    int64_t last = -1;
    for (const Run& run : m_runs)
        if (run.first >= 0) last = int64_t{run.first} + run.n - 1;
    return last;
}

void RowPositions::let_go(std::span<const int64_t> positions) {
    RowPositions left({});
    for (const Run& run : m_runs)
        for (int32_t i = 0; i < run.n; ++i) {
            const int64_t position = run.first < 0 ? -1 : int64_t{run.first} + i;
            left.add(position >= 0 && std::ranges::binary_search(positions, position) ? -1 : position);
        }
    *this = std::move(left);
}

} // namespace refreshlab
