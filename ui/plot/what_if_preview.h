#pragma once

#include "engine/record/recording.h"
#include "engine/refresh/what_if.h"

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>

namespace refreshlab::ui {

/// The what-if count while a threshold is dragged. Short runs are evaluated at once; for long ones a job works on the
/// recording, and the last answer stays until the next is there.
/// Threads  the UI thread; the job only reads the recording.
class WhatIfPreview {
public:
    /// Asks for this policy on the first `steps` steps; call every frame of a drag. Nothing happens while both stay the
    /// same as in the last question.
    void ask(const std::shared_ptr<const Recording>& recording, int64_t steps, const RefreshPolicy& policy);
    /// The newest answer, or nothing yet.
    [[nodiscard]] const WhatIf* answer();
    [[nodiscard]] bool busy() const { return m_job.valid(); } ///< the answer is of an earlier question
    void clear();

private:
    struct Question {
        std::shared_ptr<const Recording> recording;
        int64_t steps = 0;
        RefreshPolicy policy;
    };
    void start();

    std::optional<Question> m_asked, m_running;
    std::future<WhatIf> m_job;
    std::optional<WhatIf> m_answer;
};

/// What what_if() needs of a recording's first `steps` steps: signals, recorded fires, mean costs.
[[nodiscard]] RecordedRun recorded_run(const std::shared_ptr<const Recording>& recording, int64_t steps);

/// "at 5.2 bits: 7 refreshes, +11 % time (estimate)"; the part about time is left out while costs are unknown.
[[nodiscard]] std::string what_if_text(const WhatIf& answer, double threshold, std::string_view unit);
/// "exact to step 120" or "as recorded", and how many steps lack the signal; empty when there is nothing to add.
[[nodiscard]] std::string what_if_detail(const WhatIf& answer);

} // namespace refreshlab::ui
