#include "ui/scene/marks/token_origins.h"

#include "engine/record/recording/cache_state.h"

namespace refreshlab::ui {

void TokenOrigins::reset() {
    m_recording = nullptr;
    m_step = -1;
    m_origins.clear();
}

void TokenOrigins::update(const Recording& recording, int64_t step) {
    const size_t entries = recording.cache_entries().size();
    if (m_recording == &recording && m_step == step && m_entries == entries) return;
    m_recording = &recording;
    m_step = step;
    m_entries = entries;
    m_prompt_length = recording.prompt_length();
    const CacheState state = cache_state(recording, step, recording.info().config.mode == Mode::teacher);
    m_origins = state.plane(0, 0).origin;
}

Origin TokenOrigins::of(int64_t token) const {
    // Token y_t sits at position L + t - 1.
    if (token < 1 || m_prompt_length + token > static_cast<int64_t>(m_origins.size())) return Origin::none;
    return m_origins[static_cast<size_t>(m_prompt_length + token - 1)];
}

} // namespace refreshlab::ui
