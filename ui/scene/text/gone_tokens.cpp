#include "ui/scene/text/gone_tokens.h"

namespace refreshlab::ui {

void GoneTokens::reset() {
    m_recording = nullptr;
    m_step = -1;
    m_cache = {};
    m_gone.clear();
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
    m_gone.assign(static_cast<size_t>(m_cache.length()), held);
    for (size_t p = 0; p < m_gone.size(); ++p) {
        m_gone[p] = m_cache.gone_since(static_cast<int64_t>(p)).value_or(held);
        m_any |= m_gone[p] != held;
    }
}

std::optional<int64_t> GoneTokens::gone_at(int64_t position) const {
    if (position < 0 || position >= static_cast<int64_t>(m_gone.size())) return std::nullopt;
    const int32_t step = m_gone[static_cast<size_t>(position)];
    return step == held ? std::nullopt : std::optional<int64_t>(step);
}

} // namespace refreshlab::ui
