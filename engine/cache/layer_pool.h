#pragma once

#include "engine/cache/entry_pool.h"
#include "engine/cache/pool_changes.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace refreshlab {

/// Entries of one layer's KV heads, each head with a set of positions of its own. All heads share one pool of slots, so the
/// memory follows the number of entries and not the longest head.
///
/// Storage  K, V: [slots, head_dim]. A head knows its entries by position; in which slot one stands means nothing.
/// Poison   a slot that nobody holds reads as NaN, in every build: a read of an evicted entry shows in the logits.
/// Kernels  a decode step's kernels may write the newest entries themselves, and take out what is evicted (append_unwritten()): what leaves
///          is then off the lists at once, and its row stands in its free slot until the next such step, or until anything else
///          wants to write slots (settle()).
class LayerPool final : public EntryPool {
public:
    LayerPool(int64_t kv_heads, int64_t head_dim, at::ScalarType dtype, at::Device device);

    void append(int64_t first_pos, const at::Tensor& k, const at::Tensor& v) override;
    void erase(int64_t kv_head, std::span<const int64_t> positions) override;
    [[nodiscard]] SavedEntries take_out(int64_t kv_head, std::span<const int64_t> positions) override;
    void insert(int64_t kv_head, std::span<const int64_t> positions, const at::Tensor& rows) override;
    [[nodiscard]] at::Tensor read(int64_t kv_head, std::span<const int64_t> positions) const override;
    void overwrite(int64_t kv_head, std::span<const int64_t> positions, const at::Tensor& rows,
                   EntryHalves halves) override;

    [[nodiscard]] SavedEntries save(int64_t kv_head, std::span<const int64_t> positions) const override;
    void restore(int64_t kv_head, std::span<const int64_t> positions, const SavedEntries& saved) override;

    [[nodiscard]] std::span<const int64_t> positions(int64_t kv_head) const override;
    /// Slots, which are the columns.
    [[nodiscard]] std::vector<int64_t> columns(int64_t kv_head,
                                               std::span<const int64_t> positions) const override;
    /// Views: every head sees the whole pool.
    [[nodiscard]] LayerEntries attended(DecodeScratch& scratch) const override;

    [[nodiscard]] int64_t bytes_used() const override;
    [[nodiscard]] int64_t bytes_reserved() const override;
    [[nodiscard]] int64_t index_bytes() const override;
    [[nodiscard]] std::unique_ptr<EntryPool> clone() const override; ///< settled (asserted)

    // --- decode steps whose kernels write the pool themselves ---
    /// An entry of each head, newer than all that is held (asserted), whose row the kernels write.
    void append_unwritten(int64_t position);
    [[nodiscard]] std::span<const kernels::KeyList> lists() const { return m_lists; } ///< [kv_heads]
    [[nodiscard]] const PoolChanges& changes() const { return m_changes; }
    /// The pool, its lists or their edits, and what leaves, behind what stands in `to`.
    void tell_kernels(PoolLists& to) const;
    /// The kernels have made the changes. \param rows  [leaving, 2, head_dim]: what they took out
    /// \return behind them
    const std::byte* kernels_are_done(const std::byte* rows);
    /// Takes out what leaves, without a step.
    void settle();

private:
    struct Head {
        std::vector<int64_t> positions, slots; ///< ascending by position
    };
    LayerPool() = default;
    /// Takes entries away; their slots are free. \return the slots
    std::vector<int64_t> remove(int64_t kv_head, std::span<const int64_t> positions);
    [[nodiscard]] int64_t row_bytes() const { return m_k.size(1) * static_cast<int64_t>(m_k.element_size()); }
    /// Slots for positions [first_pos, first_pos + n) of every head, newer than all that is held (asserted); head by head.
    std::vector<int64_t> take_slots(int64_t first_pos, int64_t n);
    void grow(int64_t wanted); ///< at least so many free slots
    void poison(std::span<const int64_t> slots);
    void shrink();        ///< drops free slots where there are many
    void refresh_lists(); ///< after every change

    at::Tensor m_k, m_v;
    std::vector<Head> m_heads;
    std::vector<int64_t> m_free; ///< the next one last
    std::vector<kernels::KeyList> m_lists;
    PoolChanges m_changes;
    bool m_kernels_take_out = false;
};

} // namespace refreshlab
