#pragma once

#include "engine/text/json_fields.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace refreshlab {

/// Largest id a tokenizer.json may use: tables are indexed by id, and one absurd number must not allocate gigabytes.
inline constexpr int64_t max_token_id = (int64_t{1} << 24) - 1;

/// The `model` of a tokenizer.json when it is a byte-level BPE: vocabulary and ranked merges.
/// Source: Sennrich et al. 2016; order of merges as in the `tokenizers` library (rank, then place in the word).
class Bpe {
public:
    /// Throws Error{bad_input} naming what is missing or not supported.
    explicit Bpe(const FileFields& fields);

    /// Appends the ids of one word (raw bytes). O(n log n) in its length.
    void encode_word(std::string_view word, std::vector<int32_t>& ids) const;

    [[nodiscard]] const std::unordered_map<std::string, int32_t>& vocab() const { return m_vocab; }
    [[nodiscard]] int32_t largest_id() const { return m_largest_id; }

    struct Merge {
        int32_t rank;
        int32_t merged; ///< id of the joined piece
    };
    struct PairHash {
        [[nodiscard]] size_t operator()(uint64_t pair) const {
            pair ^= pair >> 31; // ids are small: spread them over all bits (constant of splitmix64)
            return static_cast<size_t>((pair * 0x9E3779B97F4A7C15ull) >> 11);
        }
    };
    using Merges = std::unordered_map<uint64_t, Merge, PairHash>; ///< by left id << 32 | right id
    [[nodiscard]] const Merges& merges() const { return m_merges; }
    [[nodiscard]] bool ignore_merges() const { return m_ignore_merges; }
    [[nodiscard]] std::optional<int32_t> unknown_id() const { return m_unknown; }
    [[nodiscard]] bool fuse_unknown() const { return m_fuse_unknown; }

private:
    void read_vocab(const FileFields& fields);
    void read_merges(const FileFields& fields);
    void add_merge(const FileFields& fields, size_t rank, const std::string& left, const std::string& right);

    std::unordered_map<std::string, int32_t> m_vocab; ///< in the file's spelling
    std::unordered_map<std::string, int32_t> m_whole; ///< by raw bytes; only with ignore_merges
    std::array<int32_t, 256> m_byte_ids{};            ///< -1: the vocabulary lacks the byte
    Merges m_merges;
    std::optional<int32_t> m_unknown;
    bool m_fuse_unknown = false;
    bool m_ignore_merges = false;
    int32_t m_largest_id = -1;
};

} // namespace refreshlab
