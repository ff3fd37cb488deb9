#include "engine/study/measure/bootstrap.h"

#include "engine/base/check.h"
#include "engine/base/quantile.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace refreshlab {

namespace {

__extension__ using Wide = unsigned __int128;

} // namespace

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
    if (values.size() < fewest_for_interval) return std::nullopt;
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
    return Interval{quantile_of_sorted(means, tail), quantile_of_sorted(means, 1 - tail)};
}

} // namespace refreshlab
