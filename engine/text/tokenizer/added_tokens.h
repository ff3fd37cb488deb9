#pragma once

#include "engine/text/tokenizer/bpe.h"
#include "engine/text/tokenizer/json_fields.h"
#include "engine/text/tokenizer/normalizer.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace refreshlab {

/// One entry of `added_tokens`.
struct AddedToken {
    int32_t id = -1;
    std::string content;
    bool single_word = false; ///< only where no word character touches it
    bool lstrip = false;      ///< takes the white space before it
    bool rstrip = false;      ///< and after it
    bool normalized = true;   ///< looked for in normalised text
    bool special = false;
};

/// Longest of a set of words at a place of a text.
class WordTrie {
public:
    /// \param which  reported on a match; of two equal words the first one counts
    void add(std::string_view word, int32_t which);
    struct Found {
        size_t length;
        int32_t which; ///< -1: none
    };
    [[nodiscard]] Found longest(std::string_view text, size_t offset) const;
    [[nodiscard]] bool empty() const { return m_ends.size() == 1; }

private:
    std::unordered_map<uint64_t, int32_t> m_children; ///< by node << 8 | byte
    std::vector<int32_t> m_ends = {-1};               ///< by node; node 0 is the root
};

/// Finds added tokens in text, leftmost longest, in the two passes of the `tokenizers` library. The first looks in the
/// text as it is for tokens that are not normalised. The second looks in the normalised pieces between them for the
/// others.
class AddedTokens {
public:
    AddedTokens() = default;
    /// \param root   the whole file; `added_tokens` may be missing
    /// Throws Error{bad_input} naming the entry, also for ids that the library would number differently.
    AddedTokens(const FileFields& root, const Bpe& bpe, const Normalizer& normalizer);

    /// A piece of text between tokens. \param at_start  nothing of the text stands before it
    using OnPiece = std::function<void(std::string_view piece, bool at_start)>;

    /// Calls token(id) and piece(...) in order of the text; pieces are normalised and never empty.
    void split(std::string_view text, const Normalizer& normalizer, const std::function<void(int32_t)>& token,
               const OnPiece& piece) const;

    [[nodiscard]] const std::map<int32_t, AddedToken>& by_id() const { return m_by_id; }
    [[nodiscard]] const std::vector<AddedToken>& listed() const { return m_listed; }

private:
    void find(std::string_view text, const WordTrie& trie, const std::function<void(int32_t)>& token,
              const OnPiece& rest) const;

    std::map<int32_t, AddedToken> m_by_id;
    std::vector<AddedToken> m_listed; ///< in the order of the file
    WordTrie m_raw;
    WordTrie m_normalized;
};

} // namespace refreshlab
