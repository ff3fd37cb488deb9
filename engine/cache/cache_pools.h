#pragma once

#include "engine/cache/cache_layout.h"
#include "engine/cache/entry_pool.h"
#include "engine/cache/pool_lists.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace refreshlab {

class LayerPool;

/// The pools of all layers of a cache that is not dense, and what goes beyond one pool: which entries splices leave alone, and which
/// are on loan for one pass. Positions that a call names ascend.
class CachePools {
public:
    CachePools() = default; ///< of no layer
    /// \param layout  pooled or coded (asserted)
    CachePools(CacheLayout layout, int64_t layers, int64_t kv_heads, int64_t head_dim, at::ScalarType dtype,
               at::Device device);

    [[nodiscard]] bool empty() const { return m_pools.empty(); }
    [[nodiscard]] EntryPool& operator[](int64_t layer) { return *m_pools[static_cast<size_t>(layer)]; }
    [[nodiscard]] const EntryPool& operator[](int64_t layer) const {
        return *m_pools[static_cast<size_t>(layer)];
    }
    /// What attention reads of a layer; of coded pools decoded, until the next call.
    [[nodiscard]] LayerEntries attended(int64_t layer) const { return (*this)[layer].attended(m_scratch); }

    /// A layer's entries at positions >= first_pos go.
    void erase_from(int64_t layer, int64_t first_pos);
    /// The same of all layers, and nothing there is blended any more.
    void truncate(int64_t new_length);

    // --- blended entries: they hold what others were, so no splice writes them ---
    /// Those of `positions` that are held, and blended or not.
    [[nodiscard]] std::vector<int64_t> held_of(int64_t layer, int64_t kv_head,
                                               std::span<const int64_t> positions, bool blended) const;
    /// Those of `positions` that are not blended.
    [[nodiscard]] std::vector<int64_t> unblended(int64_t layer, int64_t kv_head,
                                                 std::span<const int64_t> positions) const;
    void blend(int64_t layer, int64_t kv_head, std::span<const int64_t> positions);
    void unblend(int64_t layer, int64_t kv_head, std::span<const int64_t> positions);

    // --- loans: entries that are not held stand in a layer's pool until return_loan() ---
    /// One loan for each KV head, all of one layer (asserted). rows: [2, n, head_dim], K then V
    void lend(int64_t layer, int64_t kv_head, std::span<const int64_t> positions, const at::Tensor& rows);
    [[nodiscard]] int64_t lent_layer() const { return m_lent_layer; } ///< -1 = none
    void return_loan();                                               ///< nothing to do where there is none

    // --- decode steps whose kernels write the pools themselves; of pools that are not coded (asserted) ---
    /// As LayerPool::append_unwritten(), in all layers.
    void append_unwritten(int64_t position);
    [[nodiscard]] std::span<const kernels::KeyList> lists(int64_t layer) const;
    /// What the step's kernels take. \param holds  (cache, version, list_capacity): the kernels have these lists, and edits of them are enough
    [[nodiscard]] PoolLists tell_kernels(const std::function<bool(uint64_t, uint64_t, int64_t)>& holds);
    /// The kernels have made what tell_kernels() said. \param rows  [leaving, 2, head_dim]
    void kernels_are_done(const void* rows);
    /// What leaves is taken out now.
    void settle();

    // Bytes of all layers, as EntryPool says them.
    [[nodiscard]] int64_t bytes_reserved() const;
    [[nodiscard]] int64_t index_bytes() const;
    [[nodiscard]] int64_t metadata_bytes() const;
    [[nodiscard]] int64_t scratch_bytes() const { return m_scratch.bytes(); }

    [[nodiscard]] CachePools clone() const; ///< deep, but for blocks; what is on loan is no loan there

private:
    [[nodiscard]] const std::vector<int64_t>& marks(int64_t layer, int64_t kv_head) const {
        return m_blended[static_cast<size_t>(layer * m_kv_heads + kv_head)];
    }
    [[nodiscard]] std::vector<int64_t>& marks(int64_t layer, int64_t kv_head) {
        return m_blended[static_cast<size_t>(layer * m_kv_heads + kv_head)];
    }

    [[nodiscard]] LayerPool& listed(int64_t layer) const { return *m_listed[static_cast<size_t>(layer)]; }

    int64_t m_kv_heads = 0;
    std::vector<LayerPool*> m_listed;                ///< those of m_pools; empty: coded
    uint64_t m_id = 0;                               ///< no other pools have it
    uint64_t m_version = 0;                          ///< of the lists that kernels saw last
    int64_t m_list_capacity = 256;                   ///< the shortest: a split
    std::vector<std::unique_ptr<EntryPool>> m_pools; ///< [layers]
    std::vector<std::vector<int64_t>> m_blended;     ///< [layers * kv_heads], each ascending
    int64_t m_lent_layer = -1;
    std::vector<std::vector<int64_t>> m_lent; ///< [kv_heads] of that layer
    mutable DecodeScratch m_scratch;          ///< of coded pools: what attended() gives
};

} // namespace refreshlab
