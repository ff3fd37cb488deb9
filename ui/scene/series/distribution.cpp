#include "ui/scene/series/distribution.h"

#include "engine/signals/registry.h"

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

SignalStatistics signal_statistics(const Recording& recording, int64_t steps, size_t signal, int64_t first,
                                   int64_t last) {
    SignalStatistics result;
    result.first = std::max<int64_t>(1, first);
    result.last = std::min(steps, last);
    double sum = 0, ms = 0;
    for (int64_t t = result.first; t <= result.last; ++t) {
        for (const float part : recording.step(t).part_ms)
            ms += std::isfinite(part) ? static_cast<double>(part) : 0;
        const float value = recording.signal(t, signal);
        if (is_absent(value)) continue;
        if (!std::isfinite(value)) {
            ++result.not_finite;
            continue;
        }
        result.sorted.push_back(static_cast<double>(value));
        sum += static_cast<double>(value);
    }
    if (result.steps() > 0) result.step_ms = ms / static_cast<double>(result.steps());
    if (!result.sorted.empty()) {
        const double n = static_cast<double>(result.sorted.size()), mean = sum / n;
        double squares = 0;
        for (const double value : result.sorted)
            squares += (value - mean) * (value - mean);
        result.mean = mean;
        if (result.sorted.size() > 1) result.sd = std::sqrt(squares / (n - 1));
        std::ranges::sort(result.sorted);
    }
    const auto& refreshes = recording.refreshes();
    for (size_t i = refreshes.size(); i-- > 0 && refreshes[i].step >= result.first;) {
        const RefreshEvent& event = refreshes[i];
        if (event.step > result.last) continue;
        ++result.refreshes;
        result.refresh_ms += event.teacher_ms + event.splice_ms + event.redraw_ms;
    }
    return result;
}

int64_t count_beyond(std::span<const double> sorted, Comparison comparison, double threshold) {
    const auto below = std::ranges::lower_bound(sorted, threshold) - sorted.begin(),
               not_above = std::ranges::upper_bound(sorted, threshold) - sorted.begin();
    const auto all = static_cast<int64_t>(sorted.size());
    switch (comparison) {
    case Comparison::above:
        return all - not_above;
    case Comparison::at_least:
        return all - below;
    case Comparison::below:
        return below;
    case Comparison::at_most:
        return not_above;
    }
    return 0;
}

namespace {

/// The bin of a value that the histogram was made for.
size_t bin_of(const Histogram& bins, double value) {
    const int64_t bin = std::llround(std::floor(value / bins.width)) - std::llround(bins.low / bins.width);
    return static_cast<size_t>(std::clamp<int64_t>(bin, 0, static_cast<int64_t>(bins.counts.size()) - 1));
}

} // namespace

Histogram histogram(std::span<const double> sorted, int at_most, bool whole) {
    Histogram result;
    if (sorted.empty()) return result;
    at_most = std::max(2, at_most); // zero is a border of every width: values on both sides of it need two
    const double low = sorted.front(), high = sorted.back();
    // Doubles that are closer together than this fall into one bin anyway.
    const double finest = std::max(
        {(high - low) / at_most, std::abs(low) * 1e-9, std::abs(high) * 1e-9, 1e-30, whole ? 1.0 : 0.0});
    double power = std::pow(10.0, std::floor(std::log10(finest)));
    int64_t first = 0, count = 0;
    for (int i = 0;; ++i) { // 1, 2, 5, 10, 20, ... times the power; the first that is wide enough
        constexpr double round[] = {1, 2, 5};
        if (i > 0 && i % 3 == 0) power *= 10;
        result.width = power * round[i % 3];
        if (result.width < finest * (1 - 1e-12)) continue;
        first = std::llround(std::floor(low / result.width));
        count = std::llround(std::floor(high / result.width)) - first + 1;
        if (count <= at_most) break;
    }
    result.low = static_cast<double>(first) * result.width;
    result.counts.assign(static_cast<size_t>(count), 0.0);
    for (const double value : sorted)
        result.counts[bin_of(result, value)] += 1;
    return result;
}

SignalPairs signal_pairs(const Recording& recording, int64_t steps, size_t x, size_t y, int64_t first,
                         int64_t last) {
    SignalPairs pairs;
    double x_sum = 0, y_sum = 0;
    for (int64_t t = std::max<int64_t>(1, first); t <= std::min(steps, last); ++t) {
        const float a = recording.signal(t, x), b = recording.signal(t, y);
        if (!std::isfinite(a) || !std::isfinite(b)) continue; // not measured is no number either
        x_sum += pairs.x.emplace_back(static_cast<double>(a));
        y_sum += pairs.y.emplace_back(static_cast<double>(b));
    }
    if (pairs.x.size() < 2) return pairs;
    const double n = static_cast<double>(pairs.x.size()), x_mean = x_sum / n, y_mean = y_sum / n;
    double xx = 0, yy = 0, xy = 0;
    for (size_t i = 0; i < pairs.x.size(); ++i) {
        const double a = pairs.x[i] - x_mean, b = pairs.y[i] - y_mean;
        xx += a * a;
        yy += b * b;
        xy += a * b;
    }
    if (xx > 0 && yy > 0) pairs.correlation = std::clamp(xy / std::sqrt(xx) / std::sqrt(yy), -1.0, 1.0);
    return pairs;
}

int64_t count_beyond(const SignalPairs& pairs, Comparison x_comparison, double x_threshold,
                     Comparison y_comparison, double y_threshold) {
    const auto beyond = [](double value, Comparison comparison, double threshold) {
        return count_beyond(std::span(&value, 1), comparison, threshold) == 1;
    };
    int64_t count = 0;
    for (size_t i = 0; i < pairs.x.size(); ++i)
        count +=
            beyond(pairs.x[i], x_comparison, x_threshold) && beyond(pairs.y[i], y_comparison, y_threshold)
                ? 1
                : 0;
    return count;
}

PairHistogram pair_histogram(const SignalPairs& pairs, int columns_at_most, int rows_at_most, bool whole_x,
                             bool whole_y) {
    const auto borders = [](std::vector<double> values, int at_most, bool whole) {
        std::ranges::sort(values);
        return histogram(values, at_most, whole);
    };
    PairHistogram result{
        borders(pairs.x, columns_at_most, whole_x), borders(pairs.y, rows_at_most, whole_y), {}, 0};
    const size_t columns = result.x.counts.size(), rows = result.y.counts.size();
    result.counts.assign(columns * rows, 0.0);
    for (size_t i = 0; i < pairs.x.size(); ++i) {
        double& count = result.counts[bin_of(result.y, pairs.y[i]) * columns + bin_of(result.x, pairs.x[i])];
        count += 1;
        result.most = std::max(result.most, count);
    }
    return result;
}

} // namespace refreshlab::ui
