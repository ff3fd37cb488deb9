#pragma once

#include "kernels/ops/attention.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace refreshlab {

/// Entries of one layer's KV heads, each head with a set of positions of its own. All heads share one pool of slots, so the
/// memory follows the number of entries and not the longest head.
///
/// Storage  K, V: [slots, head_dim]. A head knows its entries by position; in which slot one stands means nothing.
/// Poison   a slot that nobody holds reads as NaN, in every build: a read of an evicted entry shows in the logits.
class LayerPool {
public:
    LayerPool(int64_t kv_heads, int64_t head_dim, at::ScalarType dtype, at::Device device);

    /// Entries of positions [first_pos, first_pos + n), newer than all that is held (asserted). k, v: [n, kv_heads, head_dim].
    void append(int64_t first_pos, const at::Tensor& k, const at::Tensor& v);
    /// Takes the head's entries at these positions away; all are held, ascending (asserted).
    void erase(int64_t kv_head, std::span<const int64_t> positions);
    /// Takes away what is at first_pos or after it, of every head.
    void erase_from(int64_t first_pos);
    /// Puts entries in, at positions that the head does not hold, ascending (asserted). rows: [2, n, head_dim], K then V.
    void insert(int64_t kv_head, std::span<const int64_t> positions, const at::Tensor& rows);
    /// The entries at these positions, all held (asserted), [2, n, head_dim], K then V, on the host. A copy.
    [[nodiscard]] at::Tensor read(int64_t kv_head, std::span<const int64_t> positions) const;
    /// Writes entries that are held (asserted). rows: as of read(), any device.
    void overwrite(int64_t kv_head, std::span<const int64_t> positions, const at::Tensor& rows);

    [[nodiscard]] std::span<const int64_t> positions(int64_t kv_head) const; ///< ascending
    /// Slots of held positions, ascending; asserted.
    [[nodiscard]] std::vector<int64_t> slots(int64_t kv_head, std::span<const int64_t> positions) const;
    /// As attention reads it: positions and slots of every head, [kv_heads]; valid until the next change.
    [[nodiscard]] std::span<const kernels::KeyList> lists() const { return m_lists; }
    /// [kv_heads, slots, head_dim]: every head sees the whole pool. Views.
    [[nodiscard]] at::Tensor keys() const;
    [[nodiscard]] at::Tensor values() const;

    [[nodiscard]] int64_t entries() const;        ///< of all heads
    [[nodiscard]] int64_t bytes_reserved() const; ///< of K and V, free slots included
    [[nodiscard]] int64_t index_bytes() const;    ///< of positions and slots
    [[nodiscard]] LayerPool clone() const;        ///< deep

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
