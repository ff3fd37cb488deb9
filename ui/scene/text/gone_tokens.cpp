#include "ui/scene/text/gone_tokens.h"

namespace refreshlab::ui {

void GoneTokens::reset() {
    m_recording = nullptr;
    m_step = -1;
    m_cache = {};
    m_any = false;
}

void GoneTokens::update(const Recording& recording, int64_t step) {
    const size_t entries = recording.cache_entries().size();
    if (m_recording == &recording && step == m_step && entries == m_entries) return;
    if (m_recording != &recording || step < m_step) {
        reset();
        m_recording = &recording;
        m_cache = CacheState(recording, recording.info().config.mode == Mode::teacher);
    }
    m_step = step;
    m_entries = entries;
    m_cache.advance(recording, step);
    m_any = false;
    for (int64_t p = 0; p < m_cache.length() && !m_any; ++p)
        m_any = m_cache.gone_since(p).has_value();
}

std::optional<int64_t> GoneTokens::gone_at(int64_t position) const {
    if (position < 0 || position >= m_cache.length()) return std::nullopt;
    return m_cache.gone_since(position);
}

} // namespace refreshlab::ui
