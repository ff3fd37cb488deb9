#include "ui/scene/text/gone_tokens.h"

#include <algorithm>

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
    if (m_cache.uniform() && m_cache.length() == 0) return;
    for (size_t p = 0; p < m_gone.size(); ++p) {
        int32_t last = 0;
        for (int64_t layer = 0; layer < m_cache.layers() && last != held; ++layer) {
            for (int64_t head = 0; head < m_cache.kv_heads() && last != held; ++head) {
                const CacheState::Plane& plane = m_cache.plane(layer, head);
                const bool gone =
                    plane.state[p] == EntryState::evicted || plane.state[p] == EntryState::merged;
                last = gone ? std::max(last, plane.since[p]) : held;
            }
        }
        m_gone[p] = last;
        m_any |= last != held;
    }
}

std::optional<int64_t> GoneTokens::gone_at(int64_t position) const {
    if (position < 0 || position >= static_cast<int64_t>(m_gone.size())) return std::nullopt;
    const int32_t step = m_gone[static_cast<size_t>(position)];
    return step == held ? std::nullopt : std::optional<int64_t>(step);
}

} // namespace refreshlab::ui
