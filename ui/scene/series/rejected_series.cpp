#include "ui/scene/series/rejected_series.h"

#include "engine/record/recording/step_record.h"

#include <cmath>

namespace refreshlab::ui {

namespace {

constexpr std::string_view student = "logprob", teacher = "teacher_logprob", acceptance = "acceptance";

float value_of(const DraftToken& token, std::string_view signal) {
    if (signal == acceptance) return token.expected;
    const float p = signal == student ? token.p_student : token.p_teacher;
    return p > 0 ? std::log(p) : absent(); // greedy choices give 0 to all but one
}

} // namespace

bool RejectedSeries::is_kept(std::string_view signal) {
    return signal == student || signal == teacher || signal == acceptance;
}

void RejectedSeries::update(const Recording& recording, std::string_view signal) {
    if (m_recording != &recording || m_signal != signal) {
        m_recording = &recording;
        m_signal = signal;
        m_seen = 0;
        m_series.clear();
    }
    if (!is_kept(signal)) return;
    for (const size_t count = recording.drafts().size(); m_seen < count; ++m_seen) {
        const DraftEvent& draft = recording.drafts()[m_seen];
        for (size_t i = static_cast<size_t>(draft.accepted()); i < draft.tokens.size(); ++i) {
            const int64_t token = draft.first_pos + static_cast<int64_t>(i) - recording.prompt_length() + 1;
            // A token's own probability stands in the record that feeds it, acceptance in the row that it was drawn from.
            const int64_t step = signal == acceptance ? token - 1 : token;
            if (step < 1) continue;
            while (m_series.size() < step)
                m_series.append(absent());
            m_series.set(step, value_of(draft.tokens[i], signal));
        }
    }
}

} // namespace refreshlab::ui
