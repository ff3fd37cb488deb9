#pragma once

#include "engine/base/origin.h"
#include "engine/record/recording/recording.h"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace refreshlab {

/// Whether attention reads a position of one layer and KV head.
enum class EntryState : uint8_t {
    none,     ///< the cache has no such position
    attended, ///< stored, and attention reads it
    kept,     ///< stored, and attention does not read it
    evicted,  ///< it was there and is gone
    merged,   ///< gone as an entry of its own: others hold it
};

/// One model's cache as it stood after a step, computed from the recording's cache events alone. So it works while
/// scrubbing, for rewound runs and for files. Without cache events (RunInfo::has_cache_events) it is empty.
/// Memory  15 B a position for every plane that differs from others, 16 B a position besides.
class CacheState {
public:
    CacheState() = default; ///< of no recording: empty
    /// Nothing yet, not even the prefill.
    /// \param teacher  whose cache
    CacheState(const Recording& recording, bool teacher);

    /// Goes on to a later step, or takes in events that the present step has had since (0 = after the prefill; clamped
    /// to the recording). Cost: the new events.
    /// \param recording  the one that the state was made for
    /// \param step       not before step() (asserted)
    void advance(const Recording& recording, int64_t step);

    /// Of one layer and KV head, by position: [length()] each.
    struct Plane {
        std::vector<EntryState> state;
        std::vector<Origin> origin;   ///< who wrote the entry; of what is gone: who had written it
        std::vector<int32_t> refresh; ///< id of the refresh that wrote, rebuilt or skipped it last; -1 = none
        std::vector<int32_t> written_at; ///< step that wrote it; 0 = the prefill
        std::vector<int32_t> since; ///< step that made its state what it is; of evicted ones: when they went
        std::vector<uint8_t> encoded;      ///< 1 where keys, values or both are stored in a shorter form
        std::array<int64_t, 5> of_state{}; ///< positions below length() in each EntryState but none
        int64_t attended_encoded = 0;      ///< those that are attended and encoded
        [[nodiscard]] int64_t count(EntryState s) const { return of_state[static_cast<size_t>(s)]; }
    };

    [[nodiscard]] int64_t step() const { return m_step; }
    /// Positions that the cache has had and the sequence still has: evicted ones count.
    [[nodiscard]] int64_t length() const { return m_length; }
    [[nodiscard]] int64_t layers() const { return m_layers; }
    [[nodiscard]] int64_t kv_heads() const { return m_kv_heads; }
    /// True while no event told layers or KV heads apart: every plane is the same one.
    [[nodiscard]] bool uniform() const { return m_planes.size() == 1; }
    [[nodiscard]] const Plane& plane(int64_t layer, int64_t kv_head) const; ///< in range (asserted)
    /// [length()]: who wrote the entries of a position, over all layers and KV heads; teacher_partly where these differ.
    [[nodiscard]] std::vector<Origin> origins() const;
    /// Step at which the last layer and KV head gave the position up (evicted or merged); nothing while one has it. Cost O(1).
    /// \param position  below length()
    [[nodiscard]] std::optional<int32_t> gone_since(int64_t position) const {
        const PositionSum& sum = m_sums[static_cast<size_t>(position)];
        return sum.gone == m_layers * m_kv_heads ? std::optional(sum.other_state) : std::nullopt;
    }
    /// Step at which a layer and KV head last had another state or form of the position. Cost O(1). \param position  below length()
    [[nodiscard]] int32_t changed_at(int64_t position) const {
        return m_sums[static_cast<size_t>(position)].changed;
    }
    /// Bytes held by each layer, [layers]; -1 where no event told them.
    [[nodiscard]] const std::vector<int64_t>& bytes() const { return m_bytes; }

private:
    void apply(const CacheEntry& entry, int64_t first, int64_t end);
    void count(Plane& plane, size_t position, int64_t sign, int64_t uses);
    void fit_length();
    std::vector<uint32_t> planes_of(const CacheEntry& entry);

    bool m_teacher = false;
    size_t m_next = 0;      ///< entry of the recording
    size_t m_row = 0;       ///< the newest row of appends, which may go on
    int64_t m_row_done = 0; ///< events of it that are in here
    int64_t m_step = 0, m_length = 0, m_layers = 1, m_kv_heads = 1;
    std::vector<Plane> m_planes;
    std::vector<uint32_t> m_plane_of; ///< [layers * kv_heads], index of m_planes
    std::vector<int64_t> m_uses;      ///< of each plane, how many of m_plane_of
    std::vector<int64_t> m_bytes, m_bytes_step;
    /// One position over all layers and KV heads.
    struct PositionSum {
        int64_t gone = 0;        ///< in how many of them it is evicted or merged
        int32_t other_state = 0; ///< step at which its state became another in one of them
        int32_t changed = 0;     ///< that, or at which its form did
    };
    std::vector<PositionSum> m_sums; ///< [length]
};

/// The cache of the teacher or the student after `step` (0 = after the prefill; clamped to the recording).
/// Cost: one pass over the events.
[[nodiscard]] CacheState cache_state(const Recording& recording, int64_t step, bool teacher);

} // namespace refreshlab
