#pragma once

#include "engine/record/recording/recording.h"
#include "engine/refresh/calibrate.h"
#include "engine/refresh/what_if.h"
#include "ui/base/latest_answer.h"

#include <cstdint>
#include <memory>
#include <string>

namespace refreshlab::ui {

/// Up to so many steps, an evaluation takes well under a millisecond and is done within the frame.
inline constexpr int64_t immediate_steps = 8000;

/// A policy on the first `steps` steps of a recording.
struct PolicyOnSteps {
    std::shared_ptr<const Recording> recording; ///< not null
    int64_t steps = 0;
    RefreshPolicy policy;

    friend bool operator==(const PolicyOnSteps&, const PolicyOnSteps&) = default;
};

/// The what-if count while a threshold is dragged. Short runs are evaluated at once; for long ones a job works on the
/// recording, and the last answer stays until the next is there.
/// Threads  the UI thread; the job only reads the recording.
class WhatIfPreview {
public:
    /// Asks for this policy on the first `steps` steps; call every frame of a drag. Nothing happens while both stay the
    /// same as in the last question.
    void ask(const std::shared_ptr<const Recording>& recording, int64_t steps, const RefreshPolicy& policy);
    /// The newest answer, or nothing yet.
    [[nodiscard]] const WhatIf* answer() { return m_answers.answer(); }
    [[nodiscard]] bool busy() const { return m_answers.busy(); } ///< the answer is of an earlier question
    void clear() { m_answers.clear(); }

private:
    static WhatIf work(const PolicyOnSteps& question);
    LatestAnswer<PolicyOnSteps, WhatIf> m_answers{work};
};

/// What what_if() needs of a recording's first `steps` steps: signals, recorded fires, mean costs.
[[nodiscard]] RecordedRun recorded_run(const std::shared_ptr<const Recording>& recording, int64_t steps);

/// "7 refreshes, +11 to 14 % time"; the part about time is left out while costs are unknown.
[[nodiscard]] std::string what_if_outcome(const WhatIf& answer);
/// "at 5.2 bits: 7 refreshes, +11 to 14 % time (estimate)"; the part about time is left out while costs are unknown.
[[nodiscard]] std::string what_if_text(const WhatIf& answer, double threshold, std::string_view unit);
/// "at 5.31 bits: quantile 0.9975 of 329 checks; 4 refreshes in this run, +2 to 5 % time (estimate)"; quantile and checks only where the
/// threshold comes from values.
[[nodiscard]] std::string calibration_text(const Calibration& found, std::string_view unit);
/// "calibrated on 330 tokens; 2,000 or more are advised"; empty where there are enough.
[[nodiscard]] std::string calibration_advice(int64_t tokens);
/// "exact to step 120" or "as recorded", and how many steps lack the signal; empty when there is nothing to add.
[[nodiscard]] std::string what_if_detail(const WhatIf& answer);

} // namespace refreshlab::ui
