#pragma once

#include "engine/record/recording/recording.h"
#include "engine/refresh/policy.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace refreshlab::ui {

/// One signal over a range of steps, and what the refreshes in it cost. No ImGui in here.
struct SignalStatistics {
    int64_t first = 1, last = 0;   ///< steps, inclusive; last < first: none
    std::vector<double> sorted;    ///< finite values, ascending
    int64_t not_finite = 0;        ///< measured, but NaN or infinite
    std::optional<double> mean;    ///< of the finite ones
    std::optional<double> sd;      ///< unbiased; nothing below two values
    int64_t refreshes = 0;         ///< that landed in the range
    double refresh_ms = 0;         ///< teacher passes, splices and redraws of those, together
    std::optional<double> step_ms; ///< mean time of a step, everything included

    [[nodiscard]] int64_t steps() const { return last - first + 1; }
    [[nodiscard]] int64_t measured() const { return static_cast<int64_t>(sorted.size()) + not_finite; }
};
/// \param first, last  clamped to 1 .. steps
/// Cost: sorts the values of the range.
[[nodiscard]] SignalStatistics signal_statistics(const Recording& recording, int64_t steps, size_t signal,
                                                 int64_t first, int64_t last);
/// How many of the values are beyond a threshold. Cost O(log n).
[[nodiscard]] int64_t count_beyond(std::span<const double> sorted, Comparison comparison, double threshold);

/// Equal bins with round borders: bin i counts the values in [low + i*width, low + (i+1)*width).
struct Histogram {
    double low = 0, width = 1;
    std::vector<double> counts;
    [[nodiscard]] double high() const { return low + width * static_cast<double>(counts.size()); }
    [[nodiscard]] double centre(size_t bin) const { return low + width * (static_cast<double>(bin) + 0.5); }
};
/// The finest bins of width 1, 2 or 5 times a power of ten that are no more than `at_most` (at least 2); no value: none.
/// \param whole  values are whole numbers: no bin is narrower than 1
[[nodiscard]] Histogram histogram(std::span<const double> sorted, int at_most, bool whole = false);

/// Two signals at the same steps: those where both have a finite value.
struct SignalPairs {
    std::vector<double> x, y; ///< one entry each per step, in their order
    std::optional<double>
        correlation; ///< Pearson's r; nothing below two pairs or where one of them never changes
};
/// \param first, last  clamped to 1 .. steps
/// Cost O(steps of the range).
[[nodiscard]] SignalPairs signal_pairs(const Recording& recording, int64_t steps, size_t x, size_t y,
                                       int64_t first, int64_t last);
/// How many pairs are beyond both thresholds.
[[nodiscard]] int64_t count_beyond(const SignalPairs& pairs, Comparison x_comparison, double x_threshold,
                                   Comparison y_comparison, double y_threshold);

/// Pairs in equal cells with round borders, as those of Histogram.
struct PairHistogram {
    Histogram x, y;             ///< borders, and how many pairs each column and row holds
    std::vector<double> counts; ///< [rows of y][columns of x]
    double most = 0;            ///< of one cell
    [[nodiscard]] double at(size_t column, size_t row) const {
        return counts[row * x.counts.size() + column];
    }
};
[[nodiscard]] PairHistogram pair_histogram(const SignalPairs& pairs, int columns_at_most, int rows_at_most,
                                           bool whole_x = false, bool whole_y = false);

} // namespace refreshlab::ui
