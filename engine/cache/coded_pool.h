#pragma once

#include "engine/cache/coded_head_reader.h"
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
    [[nodiscard]] CodedHead& head(int64_t kv_head) { return m_heads[static_cast<size_t>(kv_head)]; }
    [[nodiscard]] const CodedHead& head(int64_t kv_head) const {
        return m_heads[static_cast<size_t>(kv_head)];
    }
    /// Opens places for positions that the head does not have; they say nothing yet.
    static void open_places(CodedHead& of, std::span<const int64_t> positions);
    /// Rows for open places of these positions.
    void put_rows(CodedHead& of, size_t half, std::span<const int64_t> positions, const at::Tensor& rows);
    /// Gives the slots of those of the positions that are rows back.
    void free_rows(CodedHead& of, size_t half, std::span<const int64_t> positions);
    /// Says for the rows of all blocks where they stand, after blocks have been replaced; blocks that hold nothing any more go.
    void link_blocks(CodedHead& of, size_t half) const;
    void link_block(CodedHead& of, size_t half, size_t index) const;
    void add_block(CodedHead& of, size_t half, std::shared_ptr<const CodedBlock> block) const;
    /// Puts the rows of a block to those of another one of the same codec. \return false: none has room, or the codec joins none
    [[nodiscard]] bool join(CodedHead& of, size_t half, const CodedBlock& block) const;
    /// The block without rows of these positions; the same block where it has none of them.
    [[nodiscard]] std::shared_ptr<const CodedBlock> without(const std::shared_ptr<const CodedBlock>& block,
                                                            std::span<const int64_t> positions) const;
    [[nodiscard]] std::vector<float> decoded(const CodedBlock& block) const;
    [[nodiscard]] std::shared_ptr<const CodedBlock> encoded(std::shared_ptr<const EntryCodec> codec,
                                                            std::span<const int64_t> positions,
                                                            std::span<const float> rows) const;
    /// [n, head_dim] on the host, cache dtype.
    [[nodiscard]] at::Tensor half_rows(const CodedHead& of, size_t half,
                                       std::span<const int64_t> positions) const;
    [[nodiscard]] StoredAs stored_as() const;
    [[nodiscard]] BlockShape shape_of(const CodedBlock& block) const;
    void shrink(size_t half);
    [[nodiscard]] LayerEntries attended_by_host() const;

    int64_t m_head_dim;
    std::array<RowStore, 2> m_rows; ///< of K and V, all heads: what is not encoded
    std::vector<CodedHead> m_heads;
    std::vector<std::unique_ptr<CodedHeadReader>> m_readers; ///< [kv_heads]
    at::Tensor m_no_columns;                                 ///< [kv_heads, 0, head_dim]
    // What attended() gives.
    mutable std::vector<int64_t> m_numbers; ///< 0, 1, 2, ...
    mutable std::vector<kernels::KeyList> m_lists;
};

} // namespace refreshlab
