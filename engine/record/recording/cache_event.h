#pragma once

#include "engine/base/origin.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace refreshlab {

/// What happened to entries of a cache. The first five say who wrote an entry, the others what became of it.
enum class CacheChange : uint8_t {
    appended, ///< written after the newest position, by the model that owns the cache
    adopted,  ///< copied into an empty cache from the other model's (the hand-over of OverFill)
    spliced,  ///< overwritten with the teacher's, by a refresh
    skipped,  ///< passed over by a windowed refresh: the student's for good
    rebuilt,  ///< computed again from the text by a refresh (caches of different geometry)
    attended, ///< attention reads them again
    kept,     ///< still stored, but attention does not read them
    evicted,  ///< gone
    merged,   ///< gone as entries of their own: merged into others
    dropped,  ///< truncated: the positions are no part of the sequence any more
    encoded,  ///< keys, values or both are stored in a shorter form from now on
};
inline constexpr size_t num_cache_changes = 11;
[[nodiscard]] std::string_view to_string(CacheChange change);
[[nodiscard]] std::optional<CacheChange> cache_change_from_string(std::string_view name);

/// Positions [first, first + n).
struct PositionRange {
    int64_t first = 0, n = 0;
    friend bool operator==(const PositionRange&, const PositionRange&) = default;
};

/// One change of one model's cache. A cache reports it when it is made; the session adds the step and hands it to
/// Recording::add_cache_event().
struct CacheEvent {
    int64_t step = 0;     ///< whose forward or boundary made it; 0 = the prefill
    bool teacher = false; ///< whose cache
    CacheChange change = CacheChange::appended;
    int32_t layer = -1, kv_head = -1;     ///< -1 = all of them
    std::vector<PositionRange> positions; ///< ascending, disjoint, none empty
    /// Of these entries after the change; of attended, kept, evicted, merged, dropped and encoded: none.
    Origin origin = Origin::none;
    int32_t refresh_id = -1; ///< of spliced, skipped, rebuilt: RefreshEvent::id
    /// Held by the cache after the change, keys and values with what belongs to them: of each layer, [layers]; or one number, of
    /// `layer`, and with layer -1 of every layer; empty: not told.
    std::vector<int64_t> bytes;

    friend bool operator==(const CacheEvent&, const CacheEvent&) = default;
};

/// What a recording keeps of a CacheEvent, or of a row of them. Decode steps append one position each, step after step;
/// all of them together are one entry. Event i of the row is that of step `step + i`, at positions moved by i * count,
/// with bytes + i * bytes_stride.
class CacheEntry {
public:
    CacheEntry() = default;
    explicit CacheEntry(CacheEvent event);

    int64_t step = 0; ///< of the first
    bool teacher = false;
    CacheChange change = CacheChange::appended;
    Origin origin = Origin::none;
    int32_t layer = -1, kv_head = -1, refresh_id = -1;
    int64_t bytes_stride = 0;

    /// Events of the row: 1 but for appends. Grows while the row goes on (atomic: the writer may be extending it).
    [[nodiscard]] int64_t steps() const;
    [[nodiscard]] int64_t last_step() const { return step + steps() - 1; }
    [[nodiscard]] std::span<const PositionRange> positions() const; ///< of the first event
    [[nodiscard]] std::span<const int64_t> bytes() const;           ///< after the first event
    [[nodiscard]] CacheEvent event(int64_t i) const;                ///< 0 <= i < steps()

    /// The writer: takes the event into the row if it goes on with it. \return false where it does not
    bool extend(const CacheEvent& event);
    void set_steps(int64_t steps); ///< the writer; positive

private:
    struct Many {
        std::vector<PositionRange> positions;
        std::vector<int64_t> bytes;
    };
    PositionRange m_range;              ///< where there is one range
    int64_t m_bytes = -1;               ///< where one number is told; -1 = none
    int64_t m_steps = 1;                ///< released by extend(), acquired by steps()
    std::shared_ptr<const Many> m_many; ///< several ranges, or bytes of each layer
};

} // namespace refreshlab
