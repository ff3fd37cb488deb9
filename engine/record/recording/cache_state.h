#pragma once

#include "engine/base/origin.h"
#include "engine/record/recording/recording.h"

#include <cstdint>
#include <vector>

namespace refreshlab {

/// What attention makes of a position of one layer and KV head.
enum class EntryState : uint8_t {
    none,     ///< the cache has no such position
    attended, ///< stored, and attention reads it
    kept,     ///< stored, and attention does not read it
    evicted,  ///< it was there and is gone
    merged,   ///< gone as an entry of its own: others hold it
};

/// One model's cache as it stood after a step, told from the recording's cache events alone: so scrubbing, rewound runs and
/// files all work.
class CacheState {
public:
    /// Of one layer and KV head, by position: [length()] each.
    struct Plane {
        std::vector<EntryState> state;
        std::vector<Origin> origin;   ///< who wrote the entry; of what is gone: who had written it
        std::vector<int32_t> refresh; ///< id of the refresh that wrote, rebuilt or skipped it last; -1 = none
        std::vector<int32_t> written_at; ///< step that wrote it; 0 = the prefill
    };

    [[nodiscard]] int64_t step() const { return m_step; }
    /// Positions that the cache has had and the sequence still has: evicted ones count.
    [[nodiscard]] int64_t length() const { return m_length; }
    [[nodiscard]] int64_t layers() const { return m_layers; }
    [[nodiscard]] int64_t kv_heads() const { return m_kv_heads; }
    /// True while no event told layers or KV heads apart: every plane is the same one.
    [[nodiscard]] bool uniform() const { return m_planes.size() == 1; }
    [[nodiscard]] const Plane& plane(int64_t layer, int64_t kv_head) const; ///< in range (asserted)
    /// Bytes held by each layer, [layers]; -1 where no event told them.
    [[nodiscard]] const std::vector<int64_t>& bytes() const { return m_bytes; }

private:
    friend CacheState cache_state(const Recording& recording, int64_t step, bool teacher);

    void apply(const CacheEntry& entry, int64_t steps);
    std::vector<uint32_t> planes_of(const CacheEntry& entry);

    int64_t m_step = 0, m_length = 0, m_layers = 1, m_kv_heads = 1;
    std::vector<Plane> m_planes;
    std::vector<uint32_t> m_plane_of; ///< [layers * kv_heads], index of m_planes
    std::vector<int64_t> m_uses;      ///< of each plane, how many of m_plane_of
    std::vector<int64_t> m_bytes, m_bytes_step;
};

/// The cache of the teacher or the student after `step` (0 = after the prefill; clamped to the recording). Without cache
/// events (RunInfo::has_cache_events) it is empty.
/// Cost: one pass over the events; memory of 10 B a position for every plane that differs from others.
[[nodiscard]] CacheState cache_state(const Recording& recording, int64_t step, bool teacher);

} // namespace refreshlab
