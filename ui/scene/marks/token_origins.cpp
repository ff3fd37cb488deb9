#include "ui/scene/marks/token_origins.h"

#include <algorithm>

namespace refreshlab::ui {

void TokenOrigins::reset() {
    m_recording = nullptr;
    m_step = -1;
    m_spans.clear();
}

void TokenOrigins::update(const Recording& recording, int64_t step) {
    const auto& refreshes = recording.refreshes();
    const size_t count = refreshes.size();
    if (m_recording == &recording && m_step == step && m_refreshes == count) return;
    m_recording = &recording;
    m_step = step;
    m_refreshes = count;
    m_spans.clear();
    m_decoder = recording.info().config.mode == Mode::teacher ? Origin::teacher_decode : Origin::student;
    const int64_t length = recording.prompt_length();
    for (size_t i = 0; i < count; ++i) {
        const RefreshEvent& event = refreshes[i];
        if (event.step > step) break;
        // Token y_t sits at position length + t - 1, and at boundary t the cache ends behind y_t. A lagged splice covers
        // the delta of the boundary where it fired.
        const int64_t last = event.fired_step, first_spliced = last - event.spliced + 1;
        const int64_t first = last - event.delta + 1;
        if (first < first_spliced)
            m_spans.push_back({std::max<int64_t>(first, 1), first_spliced - 1, Origin::skipped});
        if (event.spliced > 0)
            m_spans.push_back(
                {std::max<int64_t>(event.first_pos - length + 1, 1), last, Origin::teacher_refresh});
    }
}

Origin TokenOrigins::of(int64_t token) const {
    if (token < 1 || token > m_step) return Origin::none;
    const auto span = std::ranges::lower_bound(m_spans, token, {}, [](const Span& s) { return s.last; });
    return span != m_spans.end() && token >= span->first ? span->origin : m_decoder;
}

} // namespace refreshlab::ui
