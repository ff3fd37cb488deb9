#pragma once

#include <cstdint>
#include <vector>

namespace refreshlab::bench {

/// The middle of some measurements, and how far they lie apart. Quantiles are those of engine/base/quantile.h (type 7).
struct Spread {
    int64_t count = 0;
    double median = 0;
    double low = 0, high = 0; ///< the quartiles
    double min = 0, max = 0;
    friend bool operator==(const Spread&, const Spread&) = default;
};
/// All zero without values.
[[nodiscard]] Spread spread_of(const std::vector<double>& values);
/// The spread of scale * values.
[[nodiscard]] Spread spread_of(std::vector<double> values, double scale);

/// How long the steps of a run took, milliseconds.
struct Latency {
    int64_t count = 0;
    double p50 = 0, p90 = 0, p99 = 0, max = 0;
    friend bool operator==(const Latency&, const Latency&) = default;
};
/// All zero without values.
[[nodiscard]] Latency latency_of(const std::vector<double>& step_ms);

} // namespace refreshlab::bench
