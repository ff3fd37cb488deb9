#pragma once

#include "engine/cache/cache_pools.h"
#include "engine/cache/dense_columns.h"
#include "engine/cache/event_teller.h"
#include "engine/cache/kv_cache.h"
#include "engine/cache/undo_journal.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace refreshlab {

/// The parts of a cache, and what takes several of them. For the sources of KvCache alone.
struct KvCache::Impl {
    Impl(std::array<int64_t, 4> shape, at::ScalarType type, at::Device where, CacheLayout stored)
        : layers(shape[0])
        , kv_heads(shape[1])
        , capacity(shape[2])
        , head_dim(shape[3])
        , dtype(type)
        , device(where)
        , layout(stored)
        , events(layers, kv_heads, stored == CacheLayout::dense,
                 [this](int64_t layer) { return layer_bytes(layer); }) {}

    int64_t layers, kv_heads, capacity, head_dim;
    at::ScalarType dtype;
    at::Device device;
    CacheLayout layout;
    DenseColumns dense; ///< of a dense cache
    CachePools pools;   ///< of any other
    int64_t length = 0;
    std::vector<int64_t> written;     ///< per layer: columns written since the last commit
    std::vector<Origin> origins;      ///< [length]
    std::vector<int32_t> refresh_ids; ///< [length]
    UndoJournal journal;
    EventTeller events;

    [[nodiscard]] bool pooled() const { return !pools.empty(); }
    [[nodiscard]] int64_t layer_bytes(int64_t layer) const {
        if (pooled()) return pools[layer].bytes_used();
        return 2 * head_dim * static_cast<int64_t>(c10::elementSize(dtype)) * kv_heads * length;
    }

    void set_origin(int64_t first_pos, int64_t n, Origin origin, int32_t refresh);
    /// \param kept  keys and values as they stood, of a dense cache whose columns change
    void journal_columns(int64_t step, int64_t first_pos, int64_t n, KeptColumns kept = {});
    /// The teacher's columns in place of those of a dense cache, which go to the journal.
    void splice_dense(const DenseColumns& teacher, int64_t first_pos, int64_t n, int64_t step);
    /// \param blended  those of `positions` that no splice may write after the change, and could before
    void journal_entries(int64_t step, int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                         std::vector<int64_t> blended = {});
    /// The same where their bits are there already; step > 0.
    void add_to_journal(int64_t step, int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                        SavedEntries saved, std::vector<int64_t> blended = {});
    void undo(const ReplacedColumns& old);
    void undo(const ReplacedEntries& old);
    /// The teacher's columns over those that are held and hold nothing of others.
    void splice_held(const KvCache& teacher, int64_t first_pos, int64_t n, int64_t step);
    /// The entries that a splice leaves alone are told as skipped.
    void tell_left_alone(int64_t first_pos, int64_t n, int32_t refresh) const;
};

} // namespace refreshlab
