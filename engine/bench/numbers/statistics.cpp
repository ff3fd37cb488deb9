#include "engine/bench/numbers/statistics.h"

#include "engine/base/quantile.h"

#include <algorithm>

namespace refreshlab::bench {

Spread spread_of(const std::vector<double>& values) {
    if (values.empty()) return {};
    std::vector<double> sorted = values;
    std::ranges::sort(sorted);
    return {.count = static_cast<int64_t>(sorted.size()),
            .median = quantile_of_sorted(sorted, 0.5),
            .low = quantile_of_sorted(sorted, 0.25),
            .high = quantile_of_sorted(sorted, 0.75),
            .min = sorted.front(),
            .max = sorted.back()};
}

Spread spread_of(std::vector<double> values, double scale) {
    for (double& value : values)
        value *= scale;
    return spread_of(values);
}

Latency latency_of(const std::vector<double>& step_ms) {
    if (step_ms.empty()) return {};
    std::vector<double> sorted = step_ms;
    std::ranges::sort(sorted);
    return {.count = static_cast<int64_t>(sorted.size()),
            .p50 = quantile_of_sorted(sorted, 0.5),
            .p90 = quantile_of_sorted(sorted, 0.9),
            .p99 = quantile_of_sorted(sorted, 0.99),
            .max = sorted.back()};
}

} // namespace refreshlab::bench
