#pragma once

#include <cstdint>

namespace refreshlab::ui {

/// The x axis that all time plots share.
struct TimeView {
    double x_min = 0, x_max = 100;
    bool follow = true;     ///< keeps the newest step in sight until the person pans or zooms
    int64_t seen_steps = 0; ///< size when following stopped: the "End" button counts what came since
    bool fit_request = false;
};

// What it does. Step t is drawn at x = t.

/// Start of a frame, before the plots: fits on request, and moves on with the newest step while following. A view that
/// shows the run from its start grows in chunks of about a tenth, so that the scale changes seldom; a narrower one
/// scrolls by whole steps at its width.
void advance_time_view(TimeView& view, int64_t steps);

/// Call after EndPlot. When the linked limits are not those that were set, a person panned or zoomed. Then following
/// stops, and the steps that come from then on are counted. \return whether that happened
bool note_user_view(TimeView& view, double set_min, double set_max, int64_t steps);

void fit_time_view(TimeView& view, int64_t steps); ///< the whole run; follows again
void follow_newest(TimeView& view, int64_t steps); ///< End: at the present width
/// By hand: clamped to the run, and following stops.
void set_time_range(TimeView& view, double x_min, double x_max, int64_t steps);
void pan_time_view(TimeView& view, double by_steps, int64_t steps);
/// factor < 1 zooms in; step `about` stays where it is.
void zoom_time_view(TimeView& view, double factor, double about, int64_t steps);
/// Brings a step into sight when it is outside; the width stays. True when something moved.
bool reveal_step(TimeView& view, int64_t step, int64_t steps);

/// Steps [first, last] of the run that the view shows; last < first where it shows none.
struct StepRange {
    int64_t first = 1, last = 0;
    [[nodiscard]] int64_t count() const { return last - first + 1; }
    friend bool operator==(const StepRange&, const StepRange&) = default;
};
[[nodiscard]] StepRange steps_in_sight(const TimeView& view, int64_t steps);
/// The steps that playing back goes through: in a loop the steps in sight, if there are two or more; else the whole
/// run.
[[nodiscard]] StepRange played_steps(const TimeView& view, bool loop, int64_t steps);

/// Steps since following stopped; 0 while following.
[[nodiscard]] int64_t new_steps(const TimeView& view, int64_t steps);
/// Right end of a view that shows a whole run of this many steps.
[[nodiscard]] double fitted_max(int64_t steps);

inline constexpr double min_time_width = 8; ///< steps; closer is of no use
inline constexpr double min_fit_width = 40; ///< a fitted view is at least this wide

} // namespace refreshlab::ui
