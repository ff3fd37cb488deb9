#include "ui/plot/distribution.h"

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
    for (const double value : sorted) {
        const auto bin = std::llround(std::floor(value / result.width)) - first;
        result.counts[static_cast<size_t>(std::clamp<int64_t>(bin, 0, count - 1))] += 1;
    }
    return result;
}

} // namespace refreshlab::ui
