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
    int64_t context = 0;              ///< KvCache::context()
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
    void tell_spliced(const EntrySelection& selection, int32_t refresh) const;
    /// \param blended  those of `positions` that no splice may write after the change, and could before
    void journal_entries(int64_t step, int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                         std::vector<int64_t> blended = {});
    /// The same where their bits are there already; step > 0.
    void add_to_journal(int64_t step, int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                        SavedEntries saved, std::vector<int64_t> blended = {});
    void undo(const ReplacedColumns& old);
    void undo(const ReplacedEntries& old);
    void undo(const ReplacedSelection& old);
    /// What is known of these positions, for the journal.
    [[nodiscard]] ReplacedSelection replaced_by(std::span<const int64_t> positions) const;
    /// That `teacher` can be spliced up to `end`; asserted.
    void check_teacher(const KvCache& student, const KvCache& teacher, int64_t end) const;
    /// The teacher's entries over those of a dense cache. \return how many, of one half each; so do the next ones
    int64_t splice_selected(const DenseColumns& teacher, const EntrySelection& selection, int64_t step);
    /// Over those of a pooled one that are held and hold nothing of others.
    int64_t splice_held(const KvCache& teacher, const EntrySelection& selection, int64_t step);
    [[nodiscard]] int64_t half_entry_bytes() const {
        return head_dim * static_cast<int64_t>(c10::elementSize(dtype));
    }
};

} // namespace refreshlab
