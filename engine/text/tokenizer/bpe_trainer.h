#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace refreshlab {

/// How often each word (raw bytes, as a PreTokenizer cuts them) occurs.
using WordCounts = std::unordered_map<std::string, int64_t>;

/// Tokens and merges of a byte-level BPE.
struct TrainedBpe {
    std::vector<std::string>
        tokens; ///< by id, spelt in ByteAlphabet: special tokens, the 256 bytes, what was merged
    std::vector<std::pair<int32_t, int32_t>> merges; ///< ids, by rank
};

/// Learns merges until there are `vocab` tokens, or no pair is left. Each time the pair of the largest count is merged, of equal counts that
/// of the smallest ids (left, then right). Bytes have the ids behind those of `specials`, in the order of their characters in ByteAlphabet.
/// The ids and merges are those of the trainer of the `tokenizers` library, which counts as it does: the count of a merged pair stays, so a
/// pair that comes up again through a token which two merges make is merged once more, and has the later of both ranks. Of the parts of such
/// a pair, the one that was there first is merged first; there the library has no fixed order.
/// \param words    their order does not matter
/// \param vocab    at least specials.size() + 256                                                         (asserted)
/// \param progress share done; false cancels, and what is learned so far comes back; may be empty
/// Source: Sennrich et al. 2016.
/// Cost: words are read once; a merge costs the length of the words that hold it. Memory: some 16 B a symbol of all words.
[[nodiscard]] TrainedBpe train_bpe(const WordCounts& words, const std::vector<std::string>& specials,
                                   int64_t vocab, const std::function<bool(double done)>& progress = {});

} // namespace refreshlab
