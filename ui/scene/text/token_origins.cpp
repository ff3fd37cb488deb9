#include "ui/scene/text/token_origins.h"

namespace refreshlab::ui {

void TokenOrigins::reset() {
    m_recording = nullptr;
    m_step = -1;
    m_cache = {};
}

void TokenOrigins::update(const Recording& recording, int64_t step) {
    if (m_recording != &recording || step < m_step)
        m_cache = CacheState(recording, recording.info().config.mode == Mode::teacher);
    m_recording = &recording;
    m_step = step;
    m_prompt_length = recording.prompt_length();
    m_cache.advance(recording, step);
}

Origin TokenOrigins::of(int64_t token) const {
    // Token y_t sits at position L + t - 1.
    if (token < 1 || m_prompt_length + token > m_cache.length()) return Origin::none;
    return m_cache.plane(0, 0).origin[static_cast<size_t>(m_prompt_length + token - 1)];
}

} // namespace refreshlab::ui
