#pragma once

#include "tests/gui/robot.h"

#include <string>

namespace refreshlab::gui {

// Where the plot of the entropy and its threshold line stand, and the mouse on them.

inline const std::string line_mark = "signals/threshold/entropy_bits",
                         plot_mark = "signals/plot/entropy_bits";
inline const std::string key = "entropy.threshold";

inline float middle(const ui::Landmarks::Box& box) {
    return box.y + box.height / 2;
}

inline double applied_threshold(Robot& r) {
    return r.status()->applied.policy.triggers.at(0).threshold;
}

/// Puts the mouse on the threshold line, right of the middle of its plot.
inline void grab_line(Robot& r) {
    const auto plot = r.box(plot_mark);
    r.move(plot.x + plot.width * 0.7F, middle(r.box(line_mark)));
}

/// Half-way between the line and the bottom of its plot: on the line itself the mouse is the line's.
inline float beside_line(Robot& r) {
    const auto plot = r.box(plot_mark);
    return (middle(r.box(line_mark)) + plot.y + plot.height) / 2;
}

inline RunConfig with_threshold(Robot& r, double bits) {
    RunConfig run = r.config();
    run.policy.triggers.at(0).threshold = bits;
    return run;
}

/// One notch after the other: a plot looks at the direction of a turn only.
inline void turn_wheel(Robot& r, float direction, int notches) {
    for (int i = 0; i < notches; ++i) {
        r.te->MouseWheelY(direction);
        r.frames(2);
    }
}

} // namespace refreshlab::gui
