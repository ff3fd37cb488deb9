#pragma once

#include "engine/record/recording/recording.h"
#include "ui/scene/series/series.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace refreshlab::ui {

/// Of the colour of the curve that they stand beside, on screen and on paper.
inline constexpr float rejected_alpha = 0.4F;

/// What drafted tokens that verification rejected had, at the steps that they would have been: of a signal that a run keeps of them, the
/// logarithm of a probability (of the student, of the teacher: after temperature and filters, natural) or their acceptance. Where two
/// drafts had a rejected token at one step, the later one's.
/// Threads  the UI thread.
class RejectedSeries {
public:
    /// A run keeps this of rejected tokens: logprob, teacher_logprob, acceptance.
    [[nodiscard]] static bool is_kept(std::string_view signal);
    /// Cost: the drafts that are new.
    void update(const Recording& recording, std::string_view signal);
    [[nodiscard]] const SignalSeries& series() const { return m_series; }
    [[nodiscard]] bool any() const { return m_series.any_measured(); }

private:
    const Recording* m_recording = nullptr; ///< compared only
    std::string m_signal;
    size_t m_seen = 0;
    SignalSeries m_series;
};

} // namespace refreshlab::ui
