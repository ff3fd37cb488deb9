#include "engine/record/recording/cache_state.h"

#include "engine/base/check.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace refreshlab {

namespace {

void grow(CacheState::Plane& plane, int64_t length) {
    const auto n = static_cast<size_t>(length);
    if (plane.state.size() >= n) return;
    plane.state.resize(n, EntryState::none);
    plane.origin.resize(n, Origin::none);
    plane.refresh.resize(n, -1);
    plane.written_at.resize(n, 0);
}

/// One event upon one position of a plane.
void change_position(CacheState::Plane& plane, size_t p, const CacheEntry& entry, int32_t step) {
    switch (entry.change) {
    case CacheChange::appended:
    case CacheChange::adopted:
    case CacheChange::spliced:
    case CacheChange::rebuilt:
        plane.state[p] = EntryState::attended;
        plane.origin[p] = entry.origin;
        plane.refresh[p] = entry.refresh_id;
        plane.written_at[p] = step;
        return;
    case CacheChange::skipped: // who wrote it and when stays as it was
        plane.origin[p] = entry.origin;
        plane.refresh[p] = entry.refresh_id;
        return;
    case CacheChange::attended:
        plane.state[p] = EntryState::attended;
        return;
    case CacheChange::kept:
        plane.state[p] = EntryState::kept;
        return;
    case CacheChange::evicted:
        plane.state[p] = EntryState::evicted;
        return;
    case CacheChange::merged:
        plane.state[p] = EntryState::merged;
        return;
    case CacheChange::dropped:
        plane.state[p] = EntryState::none;
        plane.origin[p] = Origin::none;
        plane.refresh[p] = -1;
        plane.written_at[p] = 0;
        return;
    }
}

} // namespace

const CacheState::Plane& CacheState::plane(int64_t layer, int64_t kv_head) const {
    RL_ASSERT(layer >= 0 && layer < m_layers && kv_head >= 0 && kv_head < m_kv_heads);
    return m_planes[m_plane_of[static_cast<size_t>(layer * m_kv_heads + kv_head)]];
}

/// The planes of the layers and KV heads that an event names, each once; those that others use as well are copied first.
std::vector<uint32_t> CacheState::planes_of(const CacheEntry& entry) {
    std::vector<uint32_t> planes;
    if (entry.layer < 0 && entry.kv_head < 0) {
        planes.resize(m_planes.size());
        std::iota(planes.begin(), planes.end(), 0U);
        return planes;
    }
    const int64_t first_layer = std::max(entry.layer, 0), first_head = std::max(entry.kv_head, 0);
    const int64_t last_layer = entry.layer < 0 ? m_layers : first_layer + 1;
    const int64_t last_head = entry.kv_head < 0 ? m_kv_heads : first_head + 1;
    std::map<uint32_t, std::vector<size_t>> users; // of each plane, the named ones
    for (int64_t layer = first_layer; layer < last_layer; ++layer) {
        for (int64_t head = first_head; head < last_head; ++head) {
            const auto at = static_cast<size_t>(layer * m_kv_heads + head);
            users[m_plane_of[at]].push_back(at);
        }
    }
    for (const auto& [plane, named] : users) {
        if (m_uses[plane] == std::ssize(named)) {
            planes.push_back(plane);
            continue;
        }
        const auto own = static_cast<uint32_t>(m_planes.size());
        m_planes.push_back(Plane(m_planes[plane]));
        m_uses[plane] -= std::ssize(named);
        m_uses.push_back(std::ssize(named));
        for (const size_t at : named)
            m_plane_of[at] = own;
        planes.push_back(own);
    }
    return planes;
}

/// \param steps  how many events of the entry's row have happened
void CacheState::apply(const CacheEntry& entry, int64_t steps) {
    if (entry.layer >= m_layers || entry.kv_head >= m_kv_heads)
        return; // of another model than the recording's
    const bool writes = entry.change == CacheChange::appended || entry.change == CacheChange::adopted ||
                        entry.change == CacheChange::spliced || entry.change == CacheChange::rebuilt;
    for (const uint32_t index : planes_of(entry)) {
        Plane& plane = m_planes[index];
        for (int64_t i = 0; i < steps; ++i) {
            for (const PositionRange& range : entry.positions()) {
                const int64_t first = range.first + i * range.n, end = first + range.n;
                if (writes) grow(plane, end);
                for (int64_t p = first; p < std::min<int64_t>(end, std::ssize(plane.state)); ++p)
                    change_position(plane, static_cast<size_t>(p), entry,
                                    static_cast<int32_t>(entry.step + i));
            }
        }
    }
    const auto held = entry.bytes();
    if (held.empty()) return;
    const int64_t last_step = entry.step + steps - 1,
                  grown = steps > 1 ? (steps - 1) * entry.bytes_stride : 0;
    const bool one_layer = held.size() == 1 && entry.layer >= 0;
    for (int64_t layer = one_layer ? entry.layer : 0; layer < (one_layer ? entry.layer + 1 : m_layers);
         ++layer) {
        const auto at = static_cast<size_t>(layer);
        if (last_step < m_bytes_step[at]) continue; // told by an event of a step that the row has not reached
        m_bytes[at] = held[held.size() > 1 ? at : 0] + grown;
        m_bytes_step[at] = last_step;
    }
}

CacheState cache_state(const Recording& recording, int64_t step, bool teacher) {
    CacheState state;
    state.m_step = std::clamp<int64_t>(step, 0, recording.steps());
    state.m_layers = std::max<int64_t>(1, recording.info().layers);
    state.m_kv_heads = std::max<int64_t>(1, recording.info().kv_heads);
    state.m_planes.resize(1);
    state.m_uses = {state.m_layers * state.m_kv_heads};
    state.m_plane_of.assign(static_cast<size_t>(state.m_layers * state.m_kv_heads), 0);
    state.m_bytes.assign(static_cast<size_t>(state.m_layers), -1);
    state.m_bytes_step.assign(static_cast<size_t>(state.m_layers), 0);
    const auto& log = recording.cache_entries();
    for (size_t i = 0, n = log.size(); i < n; ++i) {
        const CacheEntry& entry = log[i];
        if (entry.step > state.m_step) break; // steps never fall
        if (entry.teacher == teacher)
            state.apply(entry, std::min(entry.steps(), state.m_step - entry.step + 1));
    }
    for (const CacheState::Plane& plane : state.m_planes) {
        int64_t length = std::ssize(plane.state);
        while (length > 0 && plane.state[static_cast<size_t>(length - 1)] == EntryState::none)
            --length;
        state.m_length = std::max(state.m_length, length);
    }
    for (CacheState::Plane& plane : state.m_planes) {
        const auto n = static_cast<size_t>(state.m_length);
        grow(plane, state.m_length);
        plane.state.resize(n);
        plane.origin.resize(n);
        plane.refresh.resize(n);
        plane.written_at.resize(n);
    }
    return state;
}

} // namespace refreshlab
