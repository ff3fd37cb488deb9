#pragma once

#include "engine/cache/entry_pool.h"

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
class LayerPool final : public EntryPool {
public:
    LayerPool(int64_t kv_heads, int64_t head_dim, at::ScalarType dtype, at::Device device);

    void append(int64_t first_pos, const at::Tensor& k, const at::Tensor& v) override;
    void erase(int64_t kv_head, std::span<const int64_t> positions) override;
    void insert(int64_t kv_head, std::span<const int64_t> positions, const at::Tensor& rows) override;
    [[nodiscard]] at::Tensor read(int64_t kv_head, std::span<const int64_t> positions) const override;
    void overwrite(int64_t kv_head, std::span<const int64_t> positions, const at::Tensor& rows) override;

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
    [[nodiscard]] std::unique_ptr<EntryPool> clone() const override;

private:
    struct Head {
        std::vector<int64_t> positions, slots; ///< ascending by position
    };
    LayerPool() = default;
    void grow(int64_t wanted); ///< at least so many free slots
    void poison(std::span<const int64_t> slots);
    void shrink();        ///< drops free slots where there are many
    void refresh_lists(); ///< after every change

    at::Tensor m_k, m_v;
    std::vector<Head> m_heads;
    std::vector<int64_t> m_free; ///< the next one last
    std::vector<kernels::KeyList> m_lists;
};

} // namespace refreshlab
