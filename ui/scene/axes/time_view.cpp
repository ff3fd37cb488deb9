#include "ui/scene/axes/time_view.h"

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {
namespace {

/// Room after the newest step, so that it is not drawn on the border.
double margin(double width) {
    return std::max(1.0, 0.02 * width);
}

} // namespace

double fitted_max(int64_t steps) {
    const double need = static_cast<double>(steps) + margin(static_cast<double>(steps));
    if (need <= min_fit_width) return min_fit_width;
    // Chunks of a tenth of the next lower power of two times five: 4 at 40, 8 at 80, 64 at 1,000.
    const double chunk = std::exp2(std::floor(std::log2(need / 10)));
    return std::ceil(need / chunk) * chunk;
}

void fit_time_view(TimeView& view, int64_t steps) {
    view.x_min = 0;
    view.x_max = fitted_max(steps);
    view.follow = true;
    view.seen_steps = steps;
    view.fit_request = false;
}

void follow_newest(TimeView& view, int64_t steps) {
    view.follow = true;
    const double width = view.x_max - view.x_min, newest = static_cast<double>(steps);
    if (view.x_max <
        newest) { // a narrow view of the past jumps at its width instead of growing to the whole run
        view.x_max = std::ceil(newest + margin(width));
        view.x_min = view.x_max - width;
    }
    advance_time_view(view, steps);
}

void advance_time_view(TimeView& view, int64_t steps) {
    if (view.fit_request) {
        fit_time_view(view, steps);
        return;
    }
    if (!view.follow) return;
    view.seen_steps = steps;
    const double width = view.x_max - view.x_min;
    if (view.x_min <= 0) {
        // From the start of the run: everything stays in sight. A run that began anew gets its own scale.
        view.x_min = 0;
        view.x_max = fitted_max(steps);
        return;
    }
    const double x_max = std::ceil(static_cast<double>(steps) + margin(width));
    view.x_max = x_max;
    view.x_min = x_max - width;
    if (view.x_min <= 0) {
        view.x_min = 0;
        view.x_max = std::max(width, fitted_max(steps));
    }
}

bool note_user_view(TimeView& view, double set_min, double set_max, int64_t steps) {
    const double tolerance = 1e-9 * std::max({1.0, std::fabs(set_min), std::fabs(set_max)});
    if (std::fabs(view.x_min - set_min) <= tolerance && std::fabs(view.x_max - set_max) <= tolerance)
        return false;
    set_time_range(view, view.x_min, view.x_max, steps);
    return true;
}

void set_time_range(TimeView& view, double x_min, double x_max, int64_t steps) {
    if (!std::isfinite(x_min) || !std::isfinite(x_max)) return;
    if (x_max < x_min) std::swap(x_min, x_max);
    const double limit = fitted_max(steps), room = std::max(2.0, 0.05 * limit);
    double width = std::clamp(x_max - x_min, min_time_width, limit + 2 * room);
    if (width > x_max - x_min) { // too narrow: about its middle
        const double middle = 0.5 * (x_min + x_max);
        x_min = middle - 0.5 * width;
    }
    view.x_min = std::clamp(x_min, -room, std::max(-room, limit + room - width));
    view.x_max = view.x_min + width;
    if (view.follow) view.seen_steps = steps;
    view.follow = false;
}

void pan_time_view(TimeView& view, double by_steps, int64_t steps) {
    set_time_range(view, view.x_min + by_steps, view.x_max + by_steps, steps);
}

void zoom_time_view(TimeView& view, double factor, double about, int64_t steps) {
    set_time_range(view, about + (view.x_min - about) * factor, about + (view.x_max - about) * factor, steps);
}

bool reveal_step(TimeView& view, int64_t step, int64_t steps) {
    const auto x = static_cast<double>(step);
    if (x >= view.x_min && x <= view.x_max) return false;
    const double width = view.x_max - view.x_min;
    set_time_range(view, x - 0.5 * width, x + 0.5 * width, steps);
    return true;
}

StepRange steps_in_sight(const TimeView& view, int64_t steps) {
    const auto whole = [](double x) { return static_cast<int64_t>(std::clamp(x, 0.0, 1e15)); };
    StepRange range{std::max<int64_t>(1, whole(std::ceil(view.x_min))),
                    std::min(steps, whole(std::floor(view.x_max)))};
    if (range.last < range.first) range = {};
    return range;
}

StepRange played_steps(const TimeView& view, bool loop, int64_t steps) {
    const StepRange sight = steps_in_sight(view, steps);
    return loop && sight.count() > 1 ? sight : StepRange{1, steps};
}

int64_t new_steps(const TimeView& view, int64_t steps) {
    return view.follow ? 0 : std::max<int64_t>(0, steps - view.seen_steps);
}

} // namespace refreshlab::ui
