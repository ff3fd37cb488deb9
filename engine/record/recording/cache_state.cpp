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
    plane.since.resize(n, 0);
    plane.encoded.resize(n, 0);
}

/// One event upon one position of a plane.
void change_position(CacheState::Plane& plane, size_t p, const CacheEntry& entry, int32_t step) {
    switch (entry.change) {
    case CacheChange::appended:
    case CacheChange::adopted:
    case CacheChange::rebuilt:
        plane.encoded[p] = 0;
        plane.state[p] = EntryState::attended;
        break;
    case CacheChange::
        spliced: // what is encoded is encoded again, what is not read stays so, and what is gone stays gone
        if (plane.state[p] == EntryState::evicted || plane.state[p] == EntryState::merged) return;
        if (plane.state[p] == EntryState::none) plane.state[p] = EntryState::attended;
        break;
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
        plane.since[p] = 0;
        plane.refresh[p] = -1;
        plane.written_at[p] = 0;
        plane.encoded[p] = 0;
        return;
    case CacheChange::encoded:
        plane.encoded[p] = 1;
        return;
    }
    plane.origin[p] = entry.origin;
    plane.refresh[p] = entry.refresh_id;
    plane.written_at[p] = step;
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
    if (entry.layer >= 0 && entry.kv_head >= 0) { // the usual one of an eviction
        const uint32_t plane = m_plane_of[static_cast<size_t>(entry.layer * m_kv_heads + entry.kv_head)];
        if (m_uses[plane] == 1) return {plane};
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

/// Takes a position into the counts, or out of them. \param uses  layers and KV heads that have this plane
void CacheState::count(Plane& plane, size_t position, int64_t sign, int64_t uses) {
    const EntryState state = plane.state[position];
    plane.of_state[static_cast<size_t>(state)] += sign;
    if (state == EntryState::attended && plane.encoded[position] != 0) plane.attended_encoded += sign;
    if (state == EntryState::evicted || state == EntryState::merged) m_sums[position].gone += sign * uses;
}

/// Events [first, end) of the entry's row.
void CacheState::apply(const CacheEntry& entry, int64_t first, int64_t end) {
    if (entry.layer >= m_layers || entry.kv_head >= m_kv_heads)
        return; // of another model than the recording's
    const bool writes = entry.change == CacheChange::appended || entry.change == CacheChange::adopted ||
                        entry.change == CacheChange::spliced || entry.change == CacheChange::rebuilt;
    for (const uint32_t index : planes_of(entry)) {
        Plane& plane = m_planes[index];
        for (int64_t i = first; i < end; ++i) {
            for (const PositionRange& range : entry.positions()) {
                const int64_t from = range.first + i * range.n, to = from + range.n;
                if (writes) {
                    grow(plane, to);
                    m_sums.resize(std::max(m_sums.size(), static_cast<size_t>(to)));
                }
                for (int64_t p = from; p < std::min<int64_t>(to, std::ssize(plane.state)); ++p) {
                    const auto at = static_cast<size_t>(p);
                    const EntryState before = plane.state[at];
                    const uint8_t form = plane.encoded[at];
                    const auto step = static_cast<int32_t>(entry.step + i);
                    count(plane, at, -1, m_uses[index]);
                    change_position(plane, at, entry, step);
                    count(plane, at, 1, m_uses[index]);
                    if (plane.state[at] != before) plane.since[at] = m_sums[at].other_state = step;
                    if (plane.state[at] != before || plane.encoded[at] != form) m_sums[at].changed = step;
                }
            }
        }
    }
    const auto held = entry.bytes();
    if (held.empty()) return;
    const int64_t last_step = entry.step + end - 1, grown = end > 1 ? (end - 1) * entry.bytes_stride : 0;
    const bool one_layer = held.size() == 1 && entry.layer >= 0;
    for (int64_t layer = one_layer ? entry.layer : 0; layer < (one_layer ? entry.layer + 1 : m_layers);
         ++layer) {
        const auto at = static_cast<size_t>(layer);
        if (last_step < m_bytes_step[at]) continue; // told by an event of a step that the row has not reached
        m_bytes[at] = held[held.size() > 1 ? at : 0] + grown;
        m_bytes_step[at] = last_step;
    }
}

CacheState::CacheState(const Recording& recording, bool teacher)
    : m_teacher(teacher)
    , m_layers(std::max<int64_t>(1, recording.info().layers))
    , m_kv_heads(std::max<int64_t>(1, recording.info().kv_heads))
    , m_planes(1)
    , m_plane_of(static_cast<size_t>(m_layers * m_kv_heads), 0)
    , m_uses{m_layers * m_kv_heads}
    , m_bytes(static_cast<size_t>(m_layers), -1)
    , m_bytes_step(static_cast<size_t>(m_layers), 0) {}

void CacheState::advance(const Recording& recording, int64_t step) {
    step = std::clamp<int64_t>(step, 0, recording.steps());
    RL_ASSERT(step >= m_step);
    m_step = step;
    const auto& log = recording.cache_entries();
    const size_t n = log.size();
    const auto reached = [&](const CacheEntry& entry) {
        return std::min(entry.steps(), m_step - entry.step + 1);
    };
    // Only the newest row of a cache can have gone on: its further events stand before everything that is new.
    if (m_row_done > 0) {
        const int64_t end = reached(log[m_row]);
        if (end > m_row_done) apply(log[m_row], m_row_done, end);
        m_row_done = std::max(m_row_done, end);
    }
    for (; m_next < n; ++m_next) {
        const CacheEntry& entry = log[m_next];
        if (entry.step > m_step) break; // steps never fall
        if (entry.teacher != m_teacher) continue;
        const int64_t end = reached(entry);
        apply(entry, 0, end);
        if (entry.change == CacheChange::appended) {
            m_row = m_next;
            m_row_done = end;
        }
    }
    fit_length();
}

/// All planes have the length of the longest one that ends with a position.
void CacheState::fit_length() {
    m_length = 0;
    for (const Plane& plane : m_planes) {
        int64_t length = std::ssize(plane.state);
        while (length > 0 && plane.state[static_cast<size_t>(length - 1)] == EntryState::none)
            --length;
        m_length = std::max(m_length, length);
    }
    const auto n = static_cast<size_t>(m_length);
    m_sums.resize(n);
    for (Plane& plane : m_planes) {
        grow(plane, m_length);
        plane.state.resize(n);
        plane.origin.resize(n);
        plane.refresh.resize(n);
        plane.written_at.resize(n);
        plane.since.resize(n);
        plane.encoded.resize(n);
    }
}

std::vector<Origin> CacheState::origins() const {
    std::vector<Origin> origins = m_planes[0].origin;
    for (size_t index = 1; index < m_planes.size(); ++index) {
        // Of most planes all are the same: comparing whole runs of bytes is an order faster than one by one.
        if (m_uses[index] == 0 || m_planes[index].origin == m_planes[0].origin) continue;
        for (size_t p = 0; p < origins.size(); ++p)
            if (m_planes[index].origin[p] != origins[p]) origins[p] = Origin::teacher_partly;
    }
    return origins;
}

CacheState cache_state(const Recording& recording, int64_t step, bool teacher) {
    CacheState state(recording, teacher);
    state.advance(recording, step);
    return state;
}

} // namespace refreshlab
