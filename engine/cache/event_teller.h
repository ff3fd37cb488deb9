#pragma once

#include "engine/record/recording/cache_event.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace refreshlab {

/// Tells a listener what happens to one cache: changes of whole columns at once, edits of single KV heads when the pass that made them
/// is over. It adds how many bytes the cache holds then, which it asks its owner.
class EventTeller {
public:
    /// \param layers_alike  every layer holds the same bytes at any time: one is asked
    /// \param layer_bytes   held by a layer now
    EventTeller(int64_t layers, int64_t kv_heads, bool layers_alike,
                std::function<int64_t(int64_t layer)> layer_bytes);

    void set_listener(std::function<void(CacheEvent)> listener);
    /// Told nothing from mute() to its unmute(); the pairs may nest.
    void mute() { ++m_mutes; }
    void unmute() { --m_mutes; }
    [[nodiscard]] bool listened_to() const { return m_listener && m_mutes == 0; }

    /// Positions [first_pos, first_pos + n) of all layers; nothing is told of none.
    void tell(CacheChange change, int64_t first_pos, int64_t n, Origin origin, int32_t refresh = -1) const;
    /// Positions of one KV head, or of all of a layer or of all layers (-1); ascending, at least one.
    void tell(CacheChange change, int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
              Origin origin, int32_t refresh) const;

    /// An edit of one KV head, to be told by tell_edits(). positions: ascending, at least one
    void note_edit(CacheChange change, int64_t layer, int64_t kv_head, std::span<const int64_t> positions);
    /// Tells the edits noted since the last time, in their order; those that nobody listens to are forgotten. Neighbours with the same
    /// positions are one event where they are all KV heads of a layer, head by head, and where all edits together are all heads of all
    /// layers.
    void tell_edits();
    void forget_edits() { m_edits.clear(); }

private:
    /// An edit that was not told yet.
    struct Edit {
        CacheChange change;
        int64_t layer, kv_head;
        std::vector<int64_t> positions;
    };
    [[nodiscard]] std::vector<int64_t> bytes_of_all() const;
    /// Edits [first, first + kv_heads) are those of one layer, head by head, at the same positions.
    [[nodiscard]] bool are_a_layer(const std::vector<Edit>& edits, size_t first) const;
    [[nodiscard]] bool are_everything(const std::vector<Edit>& edits) const;

    int64_t m_layers;
    size_t m_kv_heads;
    bool m_layers_alike;
    std::function<int64_t(int64_t)> m_layer_bytes;
    std::function<void(CacheEvent)> m_listener;
    int32_t m_mutes = 0; ///< mute() without its unmute() yet
    std::vector<Edit> m_edits;
};

} // namespace refreshlab
