#include "ui/scene/series/series.h"

#include "engine/signals/registry.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace refreshlab::ui {
namespace {

constexpr int64_t fan_out = 4;
constexpr double pen_up = std::numeric_limits<double>::quiet_NaN();

int64_t block_steps(size_t level) {
    return int64_t{1} << (2 * level);
}

} // namespace

void SeriesSummary::add(int32_t t, float value) {
    if (is_absent(value)) {
        has_absent = true;
    } else if (std::isnan(value)) {
        has_nan = true;
    } else if (std::isinf(value)) {
        (value > 0 ? has_pos_inf : has_neg_inf) = true;
    } else {
        if (finite == 0) {
            first = min = max = value;
            first_t = min_t = max_t = t;
        }
        if (value < min) {
            min = value;
            min_t = t;
        }
        if (value > max) {
            max = value;
            max_t = t;
        }
        if (value > 0 && (min_positive == 0 || value < min_positive)) min_positive = value;
        last = value;
        last_t = t;
        ++finite;
    }
}

void SeriesSummary::widen(const SeriesSummary& other) {
    if (other.finite == 0) return;
    if (finite == 0) {
        *this = other;
        return;
    }
    finite += other.finite;
    min = std::min(min, other.min);
    max = std::max(max, other.max);
    if (other.min_positive > 0)
        min_positive = min_positive > 0 ? std::min(min_positive, other.min_positive) : other.min_positive;
}

void SeriesSummary::add(const SeriesSummary& later) {
    has_absent |= later.has_absent;
    has_nan |= later.has_nan;
    has_pos_inf |= later.has_pos_inf;
    has_neg_inf |= later.has_neg_inf;
    if (later.finite == 0) return;
    if (finite == 0) {
        first = later.first;
        first_t = later.first_t;
    }
    if (finite == 0 || later.min < min) {
        min = later.min;
        min_t = later.min_t;
    }
    if (finite == 0 || later.max > max) {
        max = later.max;
        max_t = later.max_t;
    }
    if (later.min_positive > 0 && (min_positive == 0 || later.min_positive < min_positive))
        min_positive = later.min_positive;
    last = later.last;
    last_t = later.last_t;
    finite += later.finite;
}

void SignalSeries::append(float value) {
    m_values.push_back(value);
    const int64_t index = size() - 1;
    const auto t = static_cast<int32_t>(size());
    // A level exists once it has more than one block below it, so that the top one is never larger than needed.
    while (block_steps(num_levels()) < size()) {
        const size_t level = num_levels() + 1;
        m_levels.emplace_back();
        SeriesSummary sum;
        for (int64_t i = 0; i < std::min(fan_out, index / block_steps(level - 1) + 1); ++i) {
            const int64_t first = i * block_steps(level - 1);
            if (first < index) sum.add(block(level - 1, i)); // the new value itself comes below
        }
        m_levels.back().push_back(sum);
    }
    for (size_t level = 1; level <= num_levels(); ++level) {
        auto& blocks = m_levels[level - 1];
        const auto b = static_cast<size_t>(index / block_steps(level));
        if (b == blocks.size()) blocks.emplace_back();
        blocks[b].add(t, value);
    }
}

void SignalSeries::set(int64_t t, float value) {
    assert(t >= 1 && t <= size());
    m_values[static_cast<size_t>(t - 1)] = value;
    for (size_t level = 1; level <= num_levels(); ++level) {
        const int64_t b = (t - 1) / block_steps(level);
        SeriesSummary sum;
        for (int64_t i = b * fan_out; i < (b + 1) * fan_out && i * block_steps(level - 1) < size(); ++i)
            sum.add(block(level - 1, i));
        m_levels[level - 1][static_cast<size_t>(b)] = sum;
    }
}

void SignalSeries::clear() {
    m_values.clear();
    m_levels.clear();
}

SeriesSummary SignalSeries::block(size_t level, int64_t index) const {
    if (level > 0) return m_levels[level - 1][static_cast<size_t>(index)];
    SeriesSummary one;
    one.add(static_cast<int32_t>(index + 1), m_values[static_cast<size_t>(index)]);
    return one;
}

SeriesSummary SignalSeries::summary(int64_t first, int64_t last) const {
    SeriesSummary sum;
    int64_t i = std::max<int64_t>(first, 1) - 1;
    const int64_t end = std::min(last, size());
    while (i < end) {
        // The largest block that begins here and does not reach past the end.
        size_t level = 0;
        while (level < num_levels() && i % block_steps(level + 1) == 0 && i + block_steps(level + 1) <= end)
            ++level;
        sum.add(block(level, i / block_steps(level)));
        i += block_steps(level);
    }
    return sum;
}

std::optional<int64_t> SignalSeries::finite_at_or_before(int64_t t) const {
    int64_t end = std::min(t, size()); // indices [0, end) are still to be looked at
    while (end > 0) {
        size_t level = 0;
        while (level < num_levels() && end % block_steps(level + 1) == 0)
            ++level;
        const SeriesSummary sum = block(level, (end - block_steps(level)) / block_steps(level));
        if (sum.finite > 0) return sum.last_t;
        end -= block_steps(level);
    }
    return std::nullopt;
}

std::optional<int64_t> SignalSeries::finite_at_or_after(int64_t t) const {
    int64_t i = std::max<int64_t>(t, 1) - 1;
    while (i < size()) {
        size_t level = 0;
        while (level < num_levels() && i % block_steps(level + 1) == 0)
            ++level;
        const SeriesSummary sum = block(level, i / block_steps(level));
        if (sum.finite > 0) return sum.first_t;
        i += block_steps(level);
    }
    return std::nullopt;
}

bool SignalSeries::any_measured() const {
    const SeriesSummary all = summary(1, size());
    return all.finite > 0 || all.broken();
}

void PlotPath::clear() {
    for (auto* v :
         {&x, &y, &stair_x, &stair_y, &marker_x, &marker_y, &nan_x, &pos_inf_x, &neg_inf_x, &below_x})
        v->clear();
    column_steps = 1;
}

int64_t column_steps(double steps_per_pixel) {
    if (!(steps_per_pixel > 2)) return 1;
    int64_t width = 1;
    while (static_cast<double>(width * fan_out) <= steps_per_pixel)
        width *= fan_out;
    const auto times = static_cast<int64_t>(std::floor(steps_per_pixel / static_cast<double>(width)));
    return width * std::clamp<int64_t>(times, 1, 3);
}

namespace {

/// First and last step in sight, not yet clamped to the series.
int64_t inside_from(double x_min) {
    return static_cast<int64_t>(std::floor(std::clamp(x_min, 0.0, 1e15)));
}
int64_t inside_to(double x_max) {
    return static_cast<int64_t>(std::ceil(std::clamp(x_max, 0.0, 1e15)));
}

/// Steps [first, last] that a plot of this range must look at: what is in sight and one measured value on each side, so
/// that lines and stairs run out of the plot.
struct Window {
    int64_t first, last;
};
Window visible_window(const SignalSeries& series, double x_min, double x_max) {
    Window w{std::clamp<int64_t>(inside_from(x_min), 1, series.size()),
             std::clamp<int64_t>(inside_to(x_max), 1, series.size())};
    if (const auto before = series.finite_at_or_before(w.first - 1)) w.first = *before;
    if (const auto after = series.finite_at_or_after(w.last + 1)) w.last = *after;
    return w;
}

/// Joins points in ascending order of steps into line, stairs and single markers.
class PathBuilder {
public:
    PathBuilder(const SignalSeries& series, PlotPath& out)
        : m_series(series)
        , m_out(out) {}

    /// \param continues  the step before this one is measured (in the same column it counts as such)
    void point(int64_t t, float value, bool continues) {
        if (m_any && !continues) {
            const bool adjacent = t == m_last_t + 1;
            if (!adjacent) {
                const SeriesSummary between = m_series.summary(m_last_t + 1, t - 1);
                if (!between.broken()) {
                    push(m_out.stair_x, m_out.stair_y, static_cast<double>(m_last_t), m_last);
                    push(m_out.stair_x, m_out.stair_y, static_cast<double>(t), m_last);
                    push(m_out.stair_x, m_out.stair_y, static_cast<double>(t), static_cast<double>(value));
                    push(m_out.stair_x, m_out.stair_y, static_cast<double>(t), pen_up);
                }
                end_run();
            }
        }
        push(m_out.x, m_out.y, static_cast<double>(t), static_cast<double>(value));
        ++m_run;
        m_any = true;
        m_last_t = t;
        m_last = static_cast<double>(value);
    }
    void finish() {
        if (m_any) end_run();
    }

private:
    static void push(std::vector<double>& xs, std::vector<double>& ys, double x, double y) {
        xs.push_back(x);
        ys.push_back(y);
    }
    void end_run() {
        if (m_run == 1) { // no neighbour: a marker instead of a line of no length
            m_out.x.pop_back();
            m_out.y.pop_back();
            push(m_out.marker_x, m_out.marker_y, static_cast<double>(m_last_t), m_last);
        } else {
            push(m_out.x, m_out.y, static_cast<double>(m_last_t), pen_up);
        }
        m_run = 0;
    }

    const SignalSeries& m_series;
    PlotPath& m_out;
    bool m_any = false;
    int64_t m_last_t = 0, m_run = 0;
    double m_last = 0;
};

void note_broken(const SeriesSummary& sum, double x, PlotPath& out) {
    if (sum.has_nan) out.nan_x.push_back(x);
    if (sum.has_pos_inf) out.pos_inf_x.push_back(x);
    if (sum.has_neg_inf) out.neg_inf_x.push_back(x);
}

double column_middle(int64_t first_t, int64_t last_t) {
    return 0.5 * static_cast<double>(first_t + last_t);
}

} // namespace

void decimate(const SignalSeries& series, double x_min, double x_max, double width_px, PlotPath& out) {
    out.clear();
    if (series.size() == 0 || !(width_px > 0) || !(x_max > x_min)) return;
    const Window window = visible_window(series, x_min, x_max);
    const int64_t w = out.column_steps = column_steps((x_max - x_min) / width_px);
    PathBuilder path(series, out);
    // Everything outside the view is one value on each side; what lies between it and the view holds no finite value.
    const int64_t c_first = (std::clamp<int64_t>(inside_from(x_min), 1, series.size()) - 1) / w;
    const int64_t c_last = (std::clamp<int64_t>(inside_to(x_max), 1, series.size()) - 1) / w;
    if ((window.first - 1) / w < c_first) path.point(window.first, series.at(window.first), false);
    for (int64_t c = c_first; c <= c_last; ++c) {
        const int64_t first_t = c * w + 1, last_t = std::min((c + 1) * w, series.size());
        const SeriesSummary sum = series.summary(first_t, last_t);
        note_broken(sum, column_middle(first_t, last_t), out);
        if (sum.finite == 0) continue;
        // The four values in the order of their steps; the first one decides how the column joins the one before.
        struct Point {
            int64_t t;
            float v;
        };
        Point points[4] = {
            {sum.first_t, sum.first}, {sum.min_t, sum.min}, {sum.max_t, sum.max}, {sum.last_t, sum.last}};
        if (points[1].t > points[2].t) std::swap(points[1], points[2]);
        int64_t before = -1;
        for (const Point& p : points) {
            if (p.t != before) path.point(p.t, p.v, before >= 0);
            before = p.t;
        }
    }
    if ((window.last - 1) / w > c_last) path.point(window.last, series.at(window.last), false);
    path.finish();
}

void envelope(const SignalSeries& lower, const SignalSeries& upper, double x_min, double x_max,
              double width_px, std::vector<double>& x, std::vector<double>& low, std::vector<double>& high) {
    x.clear();
    low.clear();
    high.clear();
    if (lower.size() == 0 || !(width_px > 0) || !(x_max > x_min)) return;
    const int64_t w = column_steps((x_max - x_min) / width_px);
    const int64_t from = std::clamp<int64_t>(inside_from(x_min) - 1, 1, lower.size());
    const int64_t to = std::clamp<int64_t>(inside_to(x_max) + 1, 1, lower.size());
    for (int64_t c = (from - 1) / w; c * w < to; ++c) {
        const int64_t first_t = c * w + 1, last_t = std::min((c + 1) * w, lower.size());
        const SeriesSummary below = lower.summary(first_t, last_t);
        const SeriesSummary above = &lower == &upper ? below : upper.summary(first_t, last_t);
        x.push_back(column_middle(first_t, last_t));
        low.push_back(below.finite > 0 ? static_cast<double>(below.min) : pen_up);
        high.push_back(above.finite > 0 ? static_cast<double>(above.max) : pen_up);
    }
}

} // namespace refreshlab::ui
