#include "ui/scene/axes/value_axis.h"

#include "engine/signals/registry.h"
#include "ui/base/value_format.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace refreshlab::ui {
namespace {

constexpr double smallest = std::numeric_limits<double>::min(); // log10 of it is -308
constexpr double far_below =
    0.5; // shares of the height under the edge: lines to there leave the plot steeply
constexpr double largest_value = 1e30; // no axis goes beyond, so that its span stays finite

/// Round numbers of a logarithmic kind within the axis: digit times each of its decades, largest first.
void add_decades(const ValueAxis& axis, double digit, std::vector<double>& out) {
    const double largest = std::max(std::fabs(axis.min), std::fabs(axis.max));
    // Below a tenth of the linear part the labels of symlog would all stand at 0.
    const double least =
        axis.scale == AxisScale::log ? std::max(axis.min, smallest) : axis.linear_until * 0.1;
    if (!(largest > 0)) return;
    const auto first = static_cast<int>(std::floor(std::log10(largest))),
               last = static_cast<int>(std::floor(std::log10(least)));
    for (int power = first; power >= last; --power) {
        const double value = digit * std::pow(10.0, power);
        for (const double signed_value : {value, -value})
            if (axis.share(signed_value) >= -1e-9 && axis.share(signed_value) <= 1 + 1e-9 &&
                axis.has_place(signed_value))
                out.push_back(signed_value);
    }
}

} // namespace

std::string_view to_string(AxisScale scale) {
    switch (scale) {
    case AxisScale::linear:
        return "linear";
    case AxisScale::log:
        return "log";
    case AxisScale::symlog:
        return "symlog";
    }
    return "";
}

const char* axis_label(AxisScale scale) {
    switch (scale) {
    case AxisScale::linear:
        return "Linear y axis";
    case AxisScale::log:
        return "Logarithmic y axis";
    case AxisScale::symlog:
        return "Symlog y axis";
    }
    return "";
}

std::optional<AxisScale> parse_axis_scale(std::string_view name) {
    for (const AxisScale scale : axis_scales)
        if (to_string(scale) == name) return scale;
    return std::nullopt;
}

bool can_be_logarithmic(const Signal& signal) {
    return signal.max > 0 || signal.min >= 0;
}

double ValueAxis::forward(double value) const {
    switch (scale) {
    case AxisScale::linear:
        return value;
    case AxisScale::log:
        return std::log10(value < smallest ? smallest : value); // NaN stays NaN: it lifts the pen
    case AxisScale::symlog:
        return std::asinh(value / linear_until);
    }
    return value;
}

double ValueAxis::inverse(double place) const {
    switch (scale) {
    case AxisScale::linear:
        return place;
    case AxisScale::log:
        return std::pow(10.0, place);
    case AxisScale::symlog:
        return std::sinh(place) * linear_until;
    }
    return place;
}

double ValueAxis::share(double value) const {
    const double low = forward(min), span = forward(max) - low;
    return span > 0 ? (forward(value) - low) / span : 0;
}

double ValueAxis::at_share(double share) const {
    const double low = forward(min), high = forward(max);
    return inverse(low + share * (high - low));
}

bool ValueAxis::has_place(double value) const {
    return std::isfinite(value) && (scale != AxisScale::log || value > 0);
}

double ValueAxis::per_pixel(double value, double pixels) const {
    const double step = (forward(max) - forward(min)) / std::max(pixels, 1.0);
    switch (scale) { // the slope of inverse()
    case AxisScale::linear:
        return step;
    case AxisScale::log:
        return step * std::log(10.0) * std::max(value, smallest);
    case AxisScale::symlog:
        return step * std::hypot(value, linear_until);
    }
    return step;
}

void ValueAxis::widen(double below, double above) {
    const double low = at_share(-below), high = at_share(1 + above);
    if (std::isfinite(low) && std::fabs(low) < largest_value && has_place(low)) min = low;
    if (std::isfinite(high) && std::fabs(high) < largest_value) max = high;
}

void fit_axis(ValueAxis& axis, AxisScale scale, const SeriesSummary& seen, std::span<const double> thresholds,
              ValueRange usual) {
    axis.scale = scale;
    std::optional<ValueRange> data;
    ValueRange range;
    if (scale == AxisScale::log) {
        if (seen.min_positive > 0)
            data = ValueRange{static_cast<double>(seen.min_positive), static_cast<double>(seen.max)};
        range = log_auto_range(data, thresholds, usual);
    } else {
        if (seen.finite > 0) data = ValueRange{static_cast<double>(seen.min), static_cast<double>(seen.max)};
        range = auto_range(data, thresholds, usual);
    }
    axis.min = range.min;
    axis.max = range.max;
    const double largest = std::max({std::fabs(axis.min), std::fabs(axis.max), smallest * 1e6});
    axis.linear_until = std::pow(10.0, std::floor(std::log10(largest)) - 3);
}

std::vector<double> axis_ticks(const ValueAxis& axis, int at_most) {
    if (axis.scale == AxisScale::linear) return value_ticks(axis.min, axis.max, at_most);
    if (!(axis.max > axis.min) || at_most < 1) return {};
    std::vector<double> wanted; // the most wanted first
    if (axis.scale == AxisScale::symlog && axis.min <= 0 && axis.max >= 0) wanted.push_back(0);
    add_decades(axis, 1, wanted);
    // Between decades that are left out themselves nobody looks for 2 and 5 times one.
    if (wanted.size() <= static_cast<size_t>(at_most)) {
        add_decades(axis, 2, wanted);
        add_decades(axis, 5, wanted);
    }
    std::vector<double> ticks;
    const double apart = 1.0 / (at_most + 0.5);
    for (const double value : wanted) {
        const double place = axis.share(value);
        if (std::ranges::all_of(ticks, [&](double t) { return std::fabs(axis.share(t) - place) >= apart; }))
            ticks.push_back(value);
    }
    if (ticks.size() < 2) return value_ticks(axis.min, axis.max, at_most);
    std::ranges::sort(ticks);
    return ticks;
}

std::vector<double> labelled_ticks(const ValueAxis& axis, int at_most) {
    std::vector<double> ticks = axis_ticks(axis, at_most);
    if (!(axis.max > axis.min) || at_most < 1) return ticks;
    constexpr double near = 0.06; // of the height: a tick there is the top's
    if (!ticks.empty() && axis.share(ticks.back()) >= 1 - near) return ticks;
    // Rounded downward, to a tenth of the distance that still counts as the top at most.
    const double reach = axis.max - axis.at_share(1 - near);
    const double quantum = std::pow(10.0, std::floor(std::log10(reach)));
    double top = std::floor(axis.max / quantum + 1e-9) * quantum;
    if (quantum < 1) top = round_to(top, quantum);
    if (!std::isfinite(top) || axis.share(top) < 1 - 2 * near) top = axis.max;
    const double apart = 1.0 / (at_most + 0.5);
    std::erase_if(ticks, [&](double tick) { return axis.share(tick) > axis.share(top) - apart; });
    ticks.push_back(top);
    return ticks;
}

void clear_floor(ValueAxis& axis, ValueRange usual, double share) {
    if (axis.scale == AxisScale::log || axis.min > usual.min) return;
    // By rounding data may lie a little below its floor, and the edge with it.
    if (axis.share(usual.min) <= 1e-3) axis.min = axis.at_share(-share);
}

void clip_to_axis(const ValueAxis& axis, PlotPath& path) {
    if (axis.scale != AxisScale::log) return;
    const double below = axis.at_share(-far_below);
    for (size_t i = 0; i < path.y.size(); ++i) {
        if (std::isnan(path.y[i]) || path.y[i] > 0) continue;
        path.y[i] = below;
        // A column's first, smallest and last value may be the same one.
        if (path.below_x.empty() || path.below_x.back() != path.x[i]) path.below_x.push_back(path.x[i]);
    }
    for (size_t i = 0; i < path.marker_y.size(); ++i) {
        if (path.marker_y[i] > 0) continue;
        path.marker_y[i] = below;
        path.below_x.push_back(path.marker_x[i]);
    }
    for (double& y : path.stair_y)
        if (y <= 0) y = below;
}

void clip_to_axis(const ValueAxis& axis, std::vector<double>& values) {
    if (axis.scale != AxisScale::log) return;
    for (double& value : values)
        if (value <= 0) value = axis.at_share(-far_below);
}

} // namespace refreshlab::ui
