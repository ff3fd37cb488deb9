#pragma once

#include "engine/base/entry_selection.h"
#include "engine/cache/row_positions.h"
#include "engine/policies/entry_codec.h"
#include "kernels/ops/attention.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace refreshlab {

/// What attention reads of one layer.
struct LayerEntries {
    at::Tensor k, v; ///< [kv_heads, columns, head_dim]; views
    /// [kv_heads]: the entries of each KV head, written ones included; empty = column is position. Valid until the next change.
    std::span<const kernels::KeyList> lists;
};

/// Rows of one half of some entries of one KV head as a codec stored them. Written once, never changed, so journals and clones share it.
struct CodedBlock {
    std::shared_ptr<const EntryCodec> codec;
    RowPositions positions;
    std::shared_ptr<const EncodedBlock> bytes;
};
using CodedBlocks = std::vector<std::shared_ptr<const CodedBlock>>;

/// Entries of one KV head as they stood: what a journal keeps.
struct SavedEntries {
    at::Tensor
        rows; ///< [2, n, head_dim] on the host: K then V. Rows of encoded entries are those of `blocks`, and not looked at
    std::array<CodedBlocks, 2> blocks; ///< of K and V: those that held some of the entries
};

/// Where a layer with encoded entries is decoded for attention: one layer at a time, the next one over it.
struct DecodeScratch {
    at::Tensor k, v; ///< [rows of the largest layer so far, head_dim]
    std::vector<std::vector<int64_t>> columns;
    std::vector<kernels::KeyList> lists;
    [[nodiscard]] int64_t bytes() const {
        return k.defined() ? static_cast<int64_t>(k.nbytes() + v.nbytes()) : 0;
    }
};

/// Entries of one layer's KV heads, each head with a set of positions of its own. Positions that a call names ascend.
class EntryPool {
public:
    EntryPool() = default;
    EntryPool(const EntryPool&) = delete;
    EntryPool& operator=(const EntryPool&) = delete;
    virtual ~EntryPool() = default;

    /// Entries of positions [first_pos, first_pos + n), newer than all that is held (asserted). k, v: [n, kv_heads, head_dim].
    virtual void append(int64_t first_pos, const at::Tensor& k, const at::Tensor& v) = 0;
    /// Takes the head's entries at these positions away; all are held (asserted).
    virtual void erase(int64_t kv_head, std::span<const int64_t> positions) = 0;
    /// As erase(). \return their bits, as save() gives them; of a pool whose rows a step's kernels take out (LayerPool), there once they have
    [[nodiscard]] virtual SavedEntries take_out(int64_t kv_head, std::span<const int64_t> positions);
    /// Puts entries in, at positions that the head does not hold (asserted). rows: [2, n, head_dim], K then V.
    virtual void insert(int64_t kv_head, std::span<const int64_t> positions, const at::Tensor& rows) = 0;
    /// The entries at these positions, all held (asserted), decoded: [2, n, head_dim], K then V, on the host. A copy.
    [[nodiscard]] virtual at::Tensor read(int64_t kv_head, std::span<const int64_t> positions) const = 0;
    /// Writes halves of entries that are held (asserted); what is encoded is encoded again. rows: as of read(), any device.
    virtual void overwrite(int64_t kv_head, std::span<const int64_t> positions, const at::Tensor& rows,
                           EntryHalves halves) = 0;
    /// Stores one half of entries that are held, none of it encoded (asserted), as one block.
    virtual void encode(int64_t kv_head, KvHalf half, std::span<const int64_t> positions,
                        std::shared_ptr<const EntryCodec> codec);

    /// The bits of entries that are held, before a change; and back to them after it, whether or not they are held then.
    [[nodiscard]] virtual SavedEntries save(int64_t kv_head, std::span<const int64_t> positions) const = 0;
    virtual void restore(int64_t kv_head, std::span<const int64_t> positions, const SavedEntries& saved) = 0;

    [[nodiscard]] virtual std::span<const int64_t> positions(int64_t kv_head) const = 0;
    /// Columns of attended() where positions of a head stand; all held (asserted).
    [[nodiscard]] virtual std::vector<int64_t> columns(int64_t kv_head,
                                                       std::span<const int64_t> positions) const = 0;
    /// As attention reads it. Valid until the next change, or the next call with this scratch.
    [[nodiscard]] virtual LayerEntries attended(DecodeScratch& scratch) const = 0;

    [[nodiscard]] virtual int64_t
    bytes_used() const = 0; ///< of K and V as they are stored, metadata included
    [[nodiscard]] virtual int64_t metadata_bytes() const {
        return 0;
    }                                                         ///< of encoded blocks; part of bytes_used()
    [[nodiscard]] virtual int64_t bytes_reserved() const = 0; ///< free slots included
    [[nodiscard]] virtual int64_t index_bytes() const = 0;    ///< what says where an entry stands
    [[nodiscard]] virtual std::unique_ptr<EntryPool> clone() const = 0; ///< deep, but for blocks
};

} // namespace refreshlab
