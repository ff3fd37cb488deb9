#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace refreshlab {

struct BootstrapOptions {
    int32_t resamples = 2000;
    uint64_t seed = 0;
    double level = 0.95; ///< of the interval, in (0, 1)
};

struct Interval {
    double low = 0, high = 0;
    friend bool operator==(const Interval&, const Interval&) = default;
};

/// Percentile bootstrap of the mean (Efron 1979): `resamples` draws of n values with replacement, the quantiles
/// (1 - level)/2 and (1 + level)/2 of their means. The same bits with every standard library: std::mt19937_64 is fixed by
/// the standard, the index is ours (the high word of draw * n), and sums run in the order drawn.
/// Nothing for fewer than two values. Values are finite (asserted). Cost: resamples * n draws.
[[nodiscard]] std::optional<Interval> bootstrap_mean(std::span<const double> values,
                                                     const BootstrapOptions& options);

[[nodiscard]] std::optional<double> mean(std::span<const double> values);
/// Divides by n - 1; nothing for fewer than two values.
[[nodiscard]] std::optional<double> standard_deviation(std::span<const double> values);

} // namespace refreshlab
