#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace refreshlab {

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

/// Rows [first_row, first_row + rows) of a block, of each channels [first_channel, first_channel + channels).
struct BlockPart {
    int64_t first_row = 0, rows = 0, first_channel = 0, channels = 0;
};

/// Interface Codec of reference/cache-definitions.md: a shorter form of rows. A policy makes its codecs, and says when they are used
/// (CacheEditor::encode); the cache stores blocks, attention decodes what it reads, and the cache encodes a block again when a refresh writes into it.
/// Codecs have no state: the same rows give the same bytes.
class EntryCodec {
public:
    EntryCodec() = default;
    EntryCodec(const EntryCodec&) = delete;
    EntryCodec& operator=(const EntryCodec&) = delete;
    virtual ~EntryCodec() = default;
    /// \param rows  [n, head_dim], each number one of the cache's type
    [[nodiscard]] virtual EncodedBlock encode(std::span<const float> rows, const BlockShape& shape) const = 0;
    /// \param to  [rows, channels] of the part, is written. Threads  called by several at once
    virtual void decode(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                        float* to) const = 0;
    /// The whole block. \param rows  [n, head_dim], is written
    void decode(const EncodedBlock& block, const BlockShape& shape, std::span<float> rows) const;
};

/// Numbers as the bytes of a type, at the end of `bytes`, and back. bfloat16 and float16 round to nearest, ties to even.
void put_number(std::vector<uint8_t>& bytes, float value, StoredAs type);
[[nodiscard]] float number_at(std::span<const uint8_t> bytes, int64_t index, StoredAs type);
/// Each number as the type has it.
void round_numbers(std::span<float> numbers, StoredAs type);

} // namespace refreshlab
