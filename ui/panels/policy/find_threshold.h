#pragma once

#include "engine/refresh/calibrate.h"
#include "ui/base/latest_answer.h"
#include "ui/context/context.h"
#include "ui/scene/policy/what_if_preview.h"

#include <cstddef>

namespace refreshlab::ui {

/// The popup of a trigger card in Policy (PO6): how many refreshes per 1,000 tokens are wanted, at which threshold the
/// recorded values of the shown run would have given them, and a button that takes it over, as if it had been typed.
/// Drawn with ImGui; the rule is engine/refresh/calibrate.h.
class FindThreshold {
public:
    /// For this card of the policy; the popup comes with the next draw().
    void open(size_t trigger) {
        m_trigger = trigger;
        m_opening = true;
    }
    /// Once a frame, in the window of the panel and outside of its children.
    void draw(UiContext& ctx, const RefreshPolicy& policy);

private:
    struct Question {
        PolicyOnSteps run;
        size_t trigger = 0;
        double per_1000 = 0;

        friend bool operator==(const Question&, const Question&) = default;
    };
    static CalibrationResult work(const Question& question);
    [[nodiscard]] CalibrationResult result(UiContext& ctx, const RefreshPolicy& policy);
    void draw_content(UiContext& ctx, const RefreshPolicy& policy);

    LatestAnswer<Question, CalibrationResult> m_answers{work};
    size_t m_trigger = 0;
    bool m_opening = false;
    double m_per_1000 = calibration_target;
};

} // namespace refreshlab::ui
