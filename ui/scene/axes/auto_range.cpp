#include "ui/scene/axes/auto_range.h"

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

double round_up_nice(double value) {
    if (!(value > 0) || !std::isfinite(value)) return 1;
    const double power = std::pow(10.0, std::floor(std::log10(value)));
    for (const double step : {1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0})
        if (value <= step * power * (1 + 1e-12)) return step * power;
    return 10 * power;
}

ValueRange auto_range(std::optional<ValueRange> data, std::span<const double> thresholds, ValueRange usual) {
    ValueRange r = data.value_or(usual);
    if (!(r.max >= r.min)) r = {0, 1};
    // One value alone has no extent: then its distance from the usual minimum is the scale.
    double extent = r.max - r.min;
    if (!(extent > 0)) extent = std::max({std::fabs(r.max - usual.min), std::fabs(r.max) * 0.1, 1e-9});
    const ValueRange before = r;
    for (const double y : thresholds) {
        if (!std::isfinite(y)) continue;
        const double away = std::max({before.min - y, y - before.max, 0.0});
        if (data && away > 3 * extent) continue;
        r.min = std::min(r.min, y);
        r.max = std::max(r.max, y);
    }
    // Signals that are never negative start at their natural zero, unless all data is far above it.
    // (A divergence that is 0 comes out a little below it by rounding.)
    const bool from_floor = usual.min >= 0 && r.min >= usual.min - 1e-4 * extent &&
                            r.min - usual.min <= 2 * std::max(r.max - r.min, extent);
    // A natural ceiling (1 of a probability, 0 of a logarithm) keeps only a little room above it.
    const auto under_ceiling = [&](ValueRange result) {
        if (usual.max > usual.min && r.max <= usual.max && result.max > usual.max)
            result.max = usual.max + 0.04 * (usual.max - result.min);
        return result;
    };
    if (from_floor) {
        const double top = (r.max - usual.min) * 1.06;
        return under_ceiling({std::min(usual.min, r.min), usual.min + (top > 0 ? round_up_nice(top) : 1.0)});
    }
    const double room = std::max(r.max - r.min, extent) * 0.08;
    // Rounded outward to tenths of the nice span: round numbers at both ends, not more than a tenth wasted.
    const double quantum = round_up_nice(r.max - r.min + 2 * room) / 10;
    return under_ceiling(
        {std::floor((r.min - room) / quantum) * quantum, std::ceil((r.max + room) / quantum) * quantum});
}

ValueRange log_auto_range(std::optional<ValueRange> data, std::span<const double> thresholds,
                          ValueRange usual) {
    constexpr double most_decades = 12;  // the rest of a float's range would leave the curve a flat line
    constexpr double least_extent = 0.5; // decades: about values that are all alike
    const double ceiling = usual.max > 0 ? usual.max : 1;
    if (!data || !(data->min > 0) || !(data->max >= data->min)) data = {{ceiling * 1e-3, ceiling}};
    double high = std::log10(data->max), low = std::max(std::log10(data->min), high - most_decades);
    const double extent = std::max(high - low, least_extent), data_low = low, data_high = high;
    for (const double y : thresholds) {
        if (!std::isfinite(y) || !(y > 0)) continue;
        const double place = std::log10(y);
        if (std::max(data_low - place, place - data_high) > 3 * extent) continue;
        low = std::min(low, place);
        high = std::max(high, place);
    }
    // Over some decades whole ones: their borders are the numbers that the axis is labelled with.
    const bool wide = high - low > 3;
    const double reached = high;
    const double room = wide ? 0 : 0.04 * std::max(high - low, least_extent);
    low = wide ? std::floor(low) : low - room;
    high = wide ? std::ceil(high) : high + room;
    const auto rounded = [](double place, bool up) {
        const double power = std::pow(10.0, std::floor(place)), value = std::pow(10.0, place);
        if (up) {
            for (const double digit : {1.0, 2.0, 5.0})
                if (value <= digit * power * (1 + 1e-12)) return digit * power;
            return 10 * power;
        }
        for (const double digit : {5.0, 2.0})
            if (value >= digit * power * (1 - 1e-12)) return digit * power;
        return power;
    };
    ValueRange result{rounded(low + 1e-12, false), rounded(high - 1e-12, true)};
    // A natural ceiling (1 of a probability) keeps only a little room above it.
    if (usual.max > 0 && reached <= std::log10(usual.max) + 1e-9 && result.max > usual.max)
        result.max = usual.max * std::pow(10.0, 0.04 * std::log10(usual.max / result.min));
    return result;
}

double count_top(double largest, bool logarithmic) {
    if (!logarithmic) return std::max(2.0, std::ceil(round_up_nice(largest * 1.02)));
    const double wanted = std::max(largest * 1.2, 10.0),
                 power = std::pow(10.0, std::floor(std::log10(wanted)));
    for (const double digit : {1.0, 2.0, 5.0})
        if (wanted <= digit * power * (1 + 1e-12)) return digit * power;
    return 10 * power;
}

void ColourRange::include(double value) {
    if (!std::isfinite(value)) return;
    m_min = m_any ? std::min(m_min, value) : value;
    m_max = m_any ? std::max(m_max, value) : value;
    m_any = true;
}

ValueRange ColourRange::range() const {
    if (!m_any) return {0, 1};
    ValueRange r;
    r.max = m_max > 0 ? round_up_nice(m_max) : 0;
    r.min = m_min < 0 ? -round_up_nice(-m_min) : 0;
    if (!(r.max > r.min)) r.max = r.min + 1;
    return r;
}

ValueRange usual_range(const Signal& signal, int64_t vocab_size) {
    if (signal.max > signal.min) return {signal.min, signal.max};
    if (signal.unit == "bits" && vocab_size > 1)
        return {signal.min, std::log2(static_cast<double>(vocab_size))};
    return {signal.min, signal.min + 1};
}

} // namespace refreshlab::ui
