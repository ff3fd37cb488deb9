#include "engine/results/bootstrap.h"

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

namespace {

/// Percentile interval of what `statistic` makes of each draw of n indices; nothing where it gives nothing for a draw.
template <typename Statistic>
std::optional<Interval> interval_of(size_t n, const BootstrapOptions& options, const Statistic& statistic) {
    RL_ASSERT(options.resamples > 0 && options.level > 0 && options.level < 1);
    if (n < fewest_for_interval) return std::nullopt;
    std::mt19937_64 random(options.seed);
    std::vector<double> drawn(static_cast<size_t>(options.resamples));
    for (double& value : drawn) {
        const std::optional<double> of =
            statistic([&] { return static_cast<size_t>((Wide{random()} * n) >> 64); });
        if (!of) return std::nullopt;
        value = *of;
    }
    std::sort(drawn.begin(), drawn.end());
    const double tail = (1 - options.level) / 2;
    return Interval{quantile_of_sorted(drawn, tail), quantile_of_sorted(drawn, 1 - tail)};
}

} // namespace

std::optional<Interval> bootstrap_mean(std::span<const double> values, const BootstrapOptions& options) {
    for (const double value : values)
        RL_ASSERT(std::isfinite(value));
    return interval_of(values.size(), options, [&](const auto& draw) {
        double sum = 0;
        for (size_t i = 0; i < values.size(); ++i)
            sum += values[draw()];
        return std::optional(sum / static_cast<double>(values.size()));
    });
}

std::optional<Interval> bootstrap_share(std::span<const double> parts, std::span<const double> wholes,
                                        const BootstrapOptions& options) {
    RL_ASSERT(parts.size() == wholes.size());
    for (size_t i = 0; i < parts.size(); ++i)
        RL_ASSERT(std::isfinite(parts[i]) && std::isfinite(wholes[i]));
    return interval_of(parts.size(), options, [&](const auto& draw) -> std::optional<double> {
        double part = 0, whole = 0;
        for (size_t n = 0; n < parts.size(); ++n) {
            const size_t i = draw();
            part += parts[i];
            whole += wholes[i];
        }
        if (whole <= 0) return std::nullopt;
        return part / whole;
    });
}

} // namespace refreshlab
