#pragma once

#include <cstddef>
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

inline constexpr size_t fewest_for_interval = 5;

/// Percentile bootstrap of the mean (Efron 1979): `resamples` draws of n values with replacement, the quantiles
/// (1 - level)/2 and (1 + level)/2 of their means. The same bits with every standard library: std::mt19937_64 is fixed by
/// the standard, the index is ours (the high word of draw * n), and sums run in the order drawn.
/// Nothing for fewer than fewest_for_interval values. Of few values the interval is short: of normal ones at level 0.95 it
/// holds the mean in 84 % of cases with 5 values, 90 % with 10, 93 % with 20 (counted; of two it would be 50 %).
/// Values are finite (asserted). Cost: resamples * n draws.
[[nodiscard]] std::optional<Interval> bootstrap_mean(std::span<const double> values,
                                                     const BootstrapOptions& options);

/// The same of a share: sum(parts) / sum(wholes) over values that are drawn together (paired). Nothing as above, and where some draw
/// has no positive whole: then the data do not say what share it is. parts.size() == wholes.size()        (asserted)
[[nodiscard]] std::optional<Interval> bootstrap_share(std::span<const double> parts,
                                                      std::span<const double> wholes,
                                                      const BootstrapOptions& options);

[[nodiscard]] std::optional<double> mean(std::span<const double> values);
/// Divides by n - 1; nothing for fewer than two values.
[[nodiscard]] std::optional<double> standard_deviation(std::span<const double> values);

} // namespace refreshlab
