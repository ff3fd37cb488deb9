#pragma once

#include "engine/cache/entry_pool.h"
#include "engine/cache/row_store.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace refreshlab {

/// Entries of one layer's KV heads of which keys or values may be encoded, each half apart. A row of a half stands in a slot of the
/// half's pool, or in a block. A block stays as long as its head holds one of its positions.
///
/// Reading  on the CPU attention makes the rows that it reads (kernels::CodedEntries); on a device a layer is decoded into a scratch.
/// Poison   as in LayerPool: a slot that nobody holds reads as NaN.
class CodedPool final : public EntryPool {
public:
    CodedPool(int64_t kv_heads, int64_t head_dim, at::ScalarType dtype, at::Device device);
    ~CodedPool() override;

    void append(int64_t first_pos, const at::Tensor& k, const at::Tensor& v) override;
    void erase(int64_t kv_head, std::span<const int64_t> positions) override;
    void insert(int64_t kv_head, std::span<const int64_t> positions, const at::Tensor& rows) override;
    [[nodiscard]] at::Tensor read(int64_t kv_head, std::span<const int64_t> positions) const override;
    void overwrite(int64_t kv_head, std::span<const int64_t> positions, const at::Tensor& rows,
                   EntryHalves halves) override;
    void encode(int64_t kv_head, KvHalf half, std::span<const int64_t> positions,
                std::shared_ptr<const EntryCodec> codec) override;

    [[nodiscard]] SavedEntries save(int64_t kv_head, std::span<const int64_t> positions) const override;
    void restore(int64_t kv_head, std::span<const int64_t> positions, const SavedEntries& saved) override;

    [[nodiscard]] std::span<const int64_t> positions(int64_t kv_head) const override;
    [[nodiscard]] std::vector<int64_t> columns(int64_t kv_head,
                                               std::span<const int64_t> positions) const override;
    [[nodiscard]] LayerEntries attended(DecodeScratch& scratch) const override;

    [[nodiscard]] int64_t bytes_used() const override;
    [[nodiscard]] int64_t metadata_bytes() const override;
    [[nodiscard]] int64_t bytes_reserved() const override;
    [[nodiscard]] int64_t index_bytes() const override;
    [[nodiscard]] std::unique_ptr<EntryPool> clone() const override;

private:
    class HeadEntries; ///< one head, as attention reads it
    /// Entries [first, first + n) of a head: rows of a block from `row` on, or without one of `slots`.
    struct Run {
        int64_t first = 0, n = 0;
        const CodedBlock* block = nullptr;
        int64_t row = 0;
    };
    /// One half of one head's entries.
    struct Half {
        std::vector<int64_t> positions, slots; ///< of the rows that are not encoded, ascending by position
        CodedBlocks blocks;
        mutable std::vector<Run> runs = {}; ///< of all entries, ascending; see Head::runs_known
    };
    struct Head {
        std::vector<int64_t> positions; ///< ascending
        std::array<Half, 2> halves;
        mutable bool runs_known = false; ///< nothing has changed since they were found
    };

    [[nodiscard]] Head& head(int64_t kv_head) { return m_heads[static_cast<size_t>(kv_head)]; }
    [[nodiscard]] const Head& head(int64_t kv_head) const { return m_heads[static_cast<size_t>(kv_head)]; }
    void put_rows(Head& of, size_t half, std::span<const int64_t> positions, const at::Tensor& rows);
    void take_rows(Head& of, size_t half, std::span<const int64_t> positions);
    /// Blocks that hold nothing any more go.
    static void drop_dead(Head& of);
    [[nodiscard]] std::vector<float> decoded(const CodedBlock& block) const;
    [[nodiscard]] std::shared_ptr<const CodedBlock> encoded(std::shared_ptr<const EntryCodec> codec,
                                                            std::vector<int64_t> positions,
                                                            std::span<const float> rows) const;
    /// [n, head_dim] on the host, cache dtype.
    [[nodiscard]] at::Tensor half_rows(const Head& of, size_t half, std::span<const int64_t> positions) const;
    [[nodiscard]] BlockShape shape_of(int64_t n) const;
    void shrink(size_t half);
    /// Finds the runs of both halves, if something has changed.
    static void find_runs(const Head& of);
    [[nodiscard]] LayerEntries attended_by_host() const;

    int64_t m_head_dim;
    std::array<RowStore, 2> m_rows; ///< of K and V, all heads: what is not encoded
    std::vector<Head> m_heads;
    std::vector<std::unique_ptr<HeadEntries>> m_entries; ///< [kv_heads]
    at::Tensor m_no_columns;                             ///< [kv_heads, 0, head_dim]
    // What attended() gives.
    mutable std::vector<int64_t> m_places; ///< 0, 1, 2, ...
    mutable std::vector<kernels::KeyList> m_lists;
};

} // namespace refreshlab
