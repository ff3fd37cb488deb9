#include "ui/scene/runs/token_alignment.h"

#include <algorithm>

namespace refreshlab::ui {

namespace {

/// What an edit costs; an equal token costs -1. More than a window has tokens, so no number of equal ones pays for an edit.
constexpr int32_t unit = 2 * static_cast<int32_t>(TokenAlignment::window);

} // namespace

void TokenAlignment::append(Text& text, int32_t token) {
    text.tokens.push_back(token);
    text.partners.push_back(-1);
}

std::optional<size_t> TokenAlignment::partner(Side side, size_t index) const {
    const Text& text = of(side);
    if (index >= text.aligned || text.partners[index] < 0) return std::nullopt;
    return static_cast<size_t>(text.partners[index]);
}

bool TokenAlignment::differs(Side side, size_t index) const {
    const Text &text = of(side), &other = of(side == Side::first ? Side::second : Side::first);
    if (index >= text.aligned) return false;
    const int32_t partner = text.partners[index];
    return partner < 0 || other.tokens[static_cast<size_t>(partner)] != text.tokens[index];
}

/// Equal tokens at the front belong together in one of the best alignments, whatever follows.
void TokenAlignment::skip_equal() {
    auto& [a, b] = m_sides;
    while (a.settled < a.tokens.size() && b.settled < b.tokens.size() &&
           a.tokens[a.settled] == b.tokens[b.settled]) {
        a.partners[a.settled] = static_cast<int32_t>(b.settled);
        b.partners[b.settled] = static_cast<int32_t>(a.settled);
        ++a.settled;
        ++b.settled;
    }
}

/// Cell (i, j): the least cost of the first i open tokens of one text against the first j of the other. Source: Wagner and Fischer,
/// JACM 21 (1974).
void TokenAlignment::fill_costs(size_t rows, size_t columns) {
    const int32_t *a = m_sides[0].tokens.data() + m_sides[0].settled,
                  *b = m_sides[1].tokens.data() + m_sides[1].settled;
    m_costs.resize((rows + 1) * (columns + 1));
    for (size_t j = 0; j <= columns; ++j)
        m_costs[j] = static_cast<int32_t>(j) * unit;
    for (size_t i = 1; i <= rows; ++i) {
        const int32_t* above = m_costs.data() + (i - 1) * (columns + 1);
        int32_t* row = m_costs.data() + i * (columns + 1);
        row[0] = static_cast<int32_t>(i) * unit;
        for (size_t j = 1; j <= columns; ++j) {
            const int32_t paired = above[j - 1] + (a[i - 1] == b[j - 1] ? -1 : unit);
            row[j] = std::min(paired, std::min(above[j], row[j - 1]) + unit);
        }
    }
}

/// From (0, 0) to where one of the two ends, at the least cost; of equal ends the furthest. A text that goes on behind the window ends
/// there only where both do.
std::vector<std::pair<size_t, size_t>> TokenAlignment::path(size_t rows, size_t columns) const {
    const bool whole_a = rows == m_sides[0].tokens.size() - m_sides[0].settled,
               whole_b = columns == m_sides[1].tokens.size() - m_sides[1].settled;
    const bool both_go_on = rows == window && columns == window;
    const auto cost = [&](size_t i, size_t j) { return m_costs[i * (columns + 1) + j]; };
    std::pair best{rows, columns};
    const auto consider = [&](size_t i, size_t j) {
        const int32_t here = cost(i, j), least = cost(best.first, best.second);
        if (here < least || (here == least && i + j > best.first + best.second)) best = {i, j};
    };
    for (size_t i = 0; i <= rows && (whole_b || both_go_on); ++i)
        consider(i, columns);
    for (size_t j = 0; j <= columns && (whole_a || both_go_on); ++j)
        consider(rows, j);
    const int32_t *a = m_sides[0].tokens.data() + m_sides[0].settled,
                  *b = m_sides[1].tokens.data() + m_sides[1].settled;
    std::vector points{best};
    for (auto [i, j] = best; i > 0 || j > 0; points.emplace_back(i, j)) {
        const int32_t here = cost(i, j);
        if (i > 0 && j > 0 && here == cost(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? -1 : unit)) {
            --i;
            --j;
        } else if (i > 0 && here == cost(i - 1, j) + unit) {
            --i;
        } else {
            --j;
        }
    }
    std::ranges::reverse(points);
    return points;
}

/// Takes over the path's first points. \return its edits
int64_t TokenAlignment::put(const std::vector<std::pair<size_t, size_t>>& path, size_t points) {
    auto& [a, b] = m_sides;
    int64_t edits = 0;
    for (size_t p = 1; p < points; ++p) {
        const auto [i, j] = path[p - 1];
        const size_t x = a.settled + i, y = b.settled + j;
        const bool takes_a = path[p].first > i, takes_b = path[p].second > j;
        if (takes_a) a.partners[x] = takes_b ? static_cast<int32_t>(y) : -1;
        if (takes_b) b.partners[y] = takes_a ? static_cast<int32_t>(x) : -1;
        edits += takes_a && takes_b && a.tokens[x] == b.tokens[y] ? 0 : 1;
    }
    a.aligned = a.settled + path[points - 1].first;
    b.aligned = b.settled + path[points - 1].second;
    return edits;
}

void TokenAlignment::align() {
    auto& [a, b] = m_sides;
    m_open_edits = 0;
    while (true) {
        skip_equal();
        a.aligned = a.settled;
        b.aligned = b.settled;
        const size_t open_a = a.tokens.size() - a.settled, open_b = b.tokens.size() - b.settled;
        if (open_a == 0 || open_b == 0) return;
        // The whole rest of a text that is short, beside as much of the other one as it may reach.
        const bool both_long = open_a >= window && open_b >= window;
        const size_t rows = both_long ? window : std::min(open_a, open_b + window),
                     columns = both_long ? window : std::min(open_b, open_a + window);
        fill_costs(rows, columns);
        const auto best = path(rows, columns);
        if (!both_long) {
            m_open_edits = put(best, best.size());
            return;
        }
        // The later half may come out otherwise when more of the texts is seen.
        const auto late = std::ranges::find_if(
            best, [](const auto& point) { return point.first > window / 2 || point.second > window / 2; });
        m_settled_edits += put(best, static_cast<size_t>(late - best.begin()));
        a.settled = a.aligned;
        b.settled = b.aligned;
    }
}

} // namespace refreshlab::ui
