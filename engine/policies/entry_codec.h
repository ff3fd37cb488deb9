#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace refreshlab {

struct CodeDots; // code_products.h
struct CodeSums;

/// Keys or values of entries: a codec takes them apart.
enum class KvHalf : uint8_t { keys, values };

/// How a cache stores a number that nobody encoded.
enum class StoredAs : uint8_t { float32, bfloat16, float16 };
[[nodiscard]] inline int64_t bytes_of(StoredAs type) {
    return type == StoredAs::float32 ? 4 : 2;
}

/// Rows of a block: [n, head_dim], numbers of the cache's type.
struct BlockShape {
    int64_t n = 0, head_dim = 0;
    StoredAs stored_as = StoredAs::float32;
    [[nodiscard]] int64_t numbers() const { return n * head_dim; }
};

/// One half of some entries of one KV head in a shorter form. All of it is counted.
struct EncodedBlock {
    std::vector<uint8_t> payload;  ///< codes, or the numbers that stay
    std::vector<uint8_t> metadata; ///< what decoding needs beside them: scales, minima, which channels
};

/// Channels [first_channel, first_channel + channels) of some rows of a block, in any order.
struct BlockPart {
    std::span<const int64_t> rows;
    int64_t first_channel = 0, channels = 0;
};

/// Turned rows as they stand in a block, in numbers of the cache's type: row i at first + i * stride numbers. Null: they have to be made.
struct TurnedRows {
    const void* first = nullptr;
    int64_t stride = 0;
};

/// Interface Codec of reference/cache-definitions.md: a shorter form of rows. A policy makes its codecs, and says when they are used
/// (CacheEditor::encode); the cache stores blocks, attention decodes what it reads, and the cache encodes a block again when a refresh writes into it.
/// Codecs have no state: the same rows give the same bytes. Threads  const, called by several at once.
class EntryCodec {
public:
    EntryCodec() = default;
    EntryCodec(const EntryCodec&) = delete;
    EntryCodec& operator=(const EntryCodec&) = delete;
    virtual ~EntryCodec() = default;
    /// \param rows  [n, head_dim], each number one of the cache's type
    [[nodiscard]] virtual EncodedBlock encode(std::span<const float> rows, const BlockShape& shape) const = 0;
    /// \param to  [rows, channels] of the part, is written
    virtual void decode(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                        float* to) const = 0;
    /// The whole block. \param rows  [n, head_dim], is written
    void decode(const EncodedBlock& block, const BlockShape& shape, std::span<float> rows) const;

    /// Rows may go from block to block: the bytes of a row, in payload and metadata, are as many as any other row's, and hang on it alone. For
    /// codecs of policies that evict nothing: a journal keeps what was evicted with all of its block.
    [[nodiscard]] virtual bool joins(int64_t head_dim) const;

    // --- what decoding does to every row alike may be done to the query, or to the sum, instead (kernels::CodedEntries) ---

    /// Numbers of a turned row; 0: this codec has none.
    [[nodiscard]] virtual int64_t turned_width(int64_t head_dim) const;
    /// Rows of a block, turned. \param to  [rows, turned_width], is written
    virtual void read_turned(const EncodedBlock& block, const BlockShape& shape,
                             std::span<const int64_t> rows, float* to) const;
    /// Of a block whose payload is turned rows.
    [[nodiscard]] virtual TurnedRows turned_rows(const EncodedBlock& block) const;
    /// Products with rows as decode() makes them, or turned, straight from codes; CodeDots::y goes by the place in `part.rows`. Bits are those of
    /// made rows in the kernels of the same instruction set. \return false: nothing was done, rows have to be made. The same for all blocks
    [[nodiscard]] virtual bool dots(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                                    bool turned, const CodeDots& d) const;
    [[nodiscard]] virtual bool sums(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                                    bool turned, const CodeSums& s) const;
    /// Keys: a query, [head_dim], whose product with a turned row is that of the query with the row. \param to  [turned_width], is written
    virtual void turn(std::span<const float> query, float* to) const;
    /// Values: a sum of turned rows, [turned_width], as the sum of the rows. \param to  [head_dim], is added to
    virtual void turn_back(const float* sum, std::span<float> to) const;
};

/// Numbers as the bytes of a type, at the end of `bytes`, and back. bfloat16 and float16 round to nearest, ties to even.
void put_number(std::vector<uint8_t>& bytes, float value, StoredAs type);
[[nodiscard]] float number_at(std::span<const uint8_t> bytes, int64_t index, StoredAs type);
/// The numbers [first, first + to.size()).
void numbers_at(std::span<const uint8_t> bytes, int64_t first, StoredAs type, std::span<float> to);
/// Of each of the rows its numbers, one row after the other, where every row has as many. \param to  [rows, numbers of a row]
void numbers_of_rows(std::span<const uint8_t> bytes, std::span<const int64_t> rows, StoredAs type,
                     std::span<float> to);
/// Each number as the type has it.
void round_numbers(std::span<float> numbers, StoredAs type);

} // namespace refreshlab
