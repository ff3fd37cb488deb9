#include "engine/study/bootstrap.h"

#include "kernels/check.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace refreshlab {

namespace {

__extension__ using Wide = unsigned __int128;

/// Of sorted values.
double quantile_of(std::span<const double> sorted, double q) {
    RL_ASSERT(q >= 0 && q <= 1 && !sorted.empty());
    const double place = q * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, sorted.size() - 1);
    const double share = place - static_cast<double>(below);
    // Equal neighbours are returned as they are: a*(1-s) + a*s may differ from a in the last bit.
    return sorted[below] == sorted[above] ? sorted[below]
                                          : sorted[below] + share * (sorted[above] - sorted[below]);
}

} // namespace

std::optional<double> quantile(std::vector<double> values, double q) {
    if (values.empty()) return std::nullopt;
    std::sort(values.begin(), values.end());
    return quantile_of(values, q);
}

std::optional<double> mean(std::span<const double> values) {
    if (values.empty()) return std::nullopt;
    double sum = 0;
    for (const double value : values)
        sum += value;
    return sum / static_cast<double>(values.size());
}

std::optional<double> standard_deviation(std::span<const double> values) {
    if (values.size() < 2) return std::nullopt;
    const double centre = *mean(values);
    double squares = 0;
    for (const double value : values)
        squares += (value - centre) * (value - centre);
    return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

std::optional<Interval> bootstrap_mean(std::span<const double> values, const BootstrapOptions& options) {
    RL_ASSERT(options.resamples > 0 && options.level > 0 && options.level < 1);
    for (const double value : values)
        RL_ASSERT(std::isfinite(value));
    if (values.size() < 2) return std::nullopt;
    std::mt19937_64 random(options.seed);
    std::vector<double> means(static_cast<size_t>(options.resamples));
    for (double& resampled : means) {
        double sum = 0;
        for (size_t i = 0; i < values.size(); ++i)
            sum += values[static_cast<size_t>((Wide{random()} * values.size()) >> 64)];
        resampled = sum / static_cast<double>(values.size());
    }
    std::sort(means.begin(), means.end());
    const double tail = (1 - options.level) / 2;
    return Interval{quantile_of(means, tail), quantile_of(means, 1 - tail)};
}

} // namespace refreshlab
