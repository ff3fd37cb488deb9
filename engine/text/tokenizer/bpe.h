#pragma once

#include "engine/text/tokenizer/json_fields.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace refreshlab {

class Digest;

/// Largest id a tokenizer.json may use: tables are indexed by id, and one absurd number must not allocate gigabytes.
inline constexpr int64_t max_token_id = (int64_t{1} << 24) - 1;

/// The `model` of a tokenizer.json when it is a BPE: vocabulary and ranked merges.
/// Source: Sennrich et al. 2016; order of merges as in the `tokenizers` library (rank, then place in the word); byte
/// fallback of SentencePiece (Kudo and Richardson 2018): a character without a piece becomes its bytes, "<0xE2>" ...
class Bpe {
public:
    /// What merging starts from.
    enum class Alphabet {
        bytes,     ///< byte-level (GPT-2, Llama 3, Qwen): pieces are spelt in ByteAlphabet
        characters ///< SentencePiece style (Llama 2, Mistral): pieces are text
    };

    /// Throws Error{bad_input} naming what is missing or not supported.
    Bpe(const FileFields& fields, Alphabet alphabet);

    /// Appends the ids of one word (raw bytes; of characters: well-formed UTF-8). O(n log n) in its length.
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
    /// Adds all that decides the ids, apart from the vocabulary itself (Tokenizer::fingerprint() says what does not
    /// count).
    void describe(Digest& digest) const;

private:
    void read_vocab(const FileFields& fields);
    void read_merges(const FileFields& fields);
    void add_merge(const FileFields& fields, size_t rank, const std::string& left, const std::string& right);
    void find_byte_ids(const FileFields& fields);
    void find_unknown(const FileFields& fields);
    [[nodiscard]] std::vector<int32_t> first_ids(std::string_view word) const;
    void append_character(char32_t character, std::string_view bytes, std::vector<int32_t>& ids,
                          std::optional<int32_t>& unknown) const;

    Alphabet m_alphabet;
    std::unordered_map<std::string, int32_t> m_vocab;   ///< in the file's spelling
    std::unordered_map<std::string, int32_t> m_whole;   ///< by raw bytes; only with ignore_merges
    std::unordered_map<char32_t, int32_t> m_characters; ///< pieces of one character; only of characters
    std::array<int32_t, 256> m_byte_ids{};              ///< -1: the vocabulary lacks the byte
    Merges m_merges;
    std::optional<int32_t> m_unknown;
    bool m_fuse_unknown = false;
    bool m_ignore_merges = false;
    bool m_byte_fallback = false;
    int32_t m_largest_id = -1;
};

} // namespace refreshlab
