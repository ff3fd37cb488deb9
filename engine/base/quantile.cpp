#include "engine/base/quantile.h"

#include "engine/base/check.h"

#include <algorithm>
#include <cstddef>

namespace refreshlab {

double quantile_of_sorted(std::span<const double> sorted, double q) {
    RL_ASSERT(q >= 0 && q <= 1 && !sorted.empty());
    const double place = q * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, sorted.size() - 1);
    const double share = place - static_cast<double>(below);
    // Equal neighbours are returned as they are: a*(1-s) + a*s may differ from a in the last bit.
    return sorted[below] == sorted[above] ? sorted[below]
                                          : sorted[below] + share * (sorted[above] - sorted[below]);
}

std::optional<double> quantile(std::vector<double> values, double q) {
    if (values.empty()) return std::nullopt;
    std::sort(values.begin(), values.end());
    return quantile_of_sorted(values, q);
}

} // namespace refreshlab
