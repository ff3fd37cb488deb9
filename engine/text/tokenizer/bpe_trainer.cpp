#include "engine/text/tokenizer/bpe_trainer.h"

#include "engine/base/check.h"
#include "engine/text/tokenizer/bpe.h"
#include "engine/text/tokenizer/byte_alphabet.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <queue>

namespace refreshlab {

namespace {

using WordPlaces = std::vector<int32_t>; ///< places of words, ascending

uint64_t pair_key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
}

/// A pair that may be merged, in some of the words.
struct MergeCandidate {
    int64_t count;
    uint64_t pair;  ///< left id << 32 | right id
    uint64_t order; ///< of its making
    WordPlaces words;
};

struct MergedLater {
    bool operator()(const MergeCandidate& a, const MergeCandidate& b) const {
        if (a.count != b.count) return a.count < b.count;
        return std::pair(a.pair, a.order) > std::pair(b.pair, b.order);
    }
};

class BpeLearner {
public:
    BpeLearner(const WordCounts& words, const std::vector<std::string>& specials) {
        for (const std::string& special : specials)
            static_cast<void>(id_of(special));
        std::array<uint8_t, 256> bytes;
        std::iota(bytes.begin(), bytes.end(), uint8_t{0});
        // UTF-8 keeps the order of code points, once shorter characters come first; all here have one or two bytes.
        std::ranges::sort(bytes, {}, [](uint8_t byte) {
            const std::string& spelt = ByteAlphabet::character(byte);
            return std::pair(spelt.size(), spelt);
        });
        for (const uint8_t byte : bytes)
            m_byte_ids[byte] = id_of(ByteAlphabet::character(byte));
        for (const auto& [word, count] : words) {
            std::vector<int32_t> ids;
            for (const char c : word)
                ids.push_back(m_byte_ids[static_cast<uint8_t>(c)]);
            m_words.push_back({std::move(ids), count});
        }
    }

    void learn(int64_t vocab, const std::function<bool(double)>& progress) {
        for (size_t w = 0; w < m_words.size(); ++w) {
            const auto& ids = m_words[w].ids;
            for (size_t i = 0; i + 1 < ids.size(); ++i)
                add(pair_key(ids[i], ids[i + 1]), m_words[w].count, static_cast<int32_t>(w), true);
        }
        queue_new();
        const double first = static_cast<double>(m_tokens.size());
        while (std::ssize(m_tokens) < vocab && !m_queue.empty()) {
            MergeCandidate top =
                std::move(const_cast<MergeCandidate&>(m_queue.top())); // it is taken out at once
            m_queue.pop();
            if (const int64_t now = m_counts[top.pair]; now != top.count) {
                top.count = now; // it has become rarer
                if (now > 0) m_queue.push(std::move(top));
                continue;
            }
            merge(top);
            queue_new();
            const double done =
                (static_cast<double>(m_tokens.size()) - first) / (static_cast<double>(vocab) - first);
            if (progress && !progress(done)) return;
        }
    }

    [[nodiscard]] TrainedBpe take() {
        // Of a pair that was merged twice the later rank counts.
        std::unordered_map<uint64_t, size_t, Bpe::PairHash> last;
        for (size_t i = 0; i < m_merges.size(); ++i)
            last[m_merges[i]] = i;
        TrainedBpe result{std::move(m_tokens), {}};
        for (size_t i = 0; i < m_merges.size(); ++i) {
            if (last[m_merges[i]] == i)
                result.merges.emplace_back(static_cast<int32_t>(m_merges[i] >> 32),
                                           static_cast<int32_t>(m_merges[i] & 0xFFFFFFFFu));
        }
        return result;
    }

private:
    struct Word {
        std::vector<int32_t> ids;
        int64_t count;
    };

    int32_t id_of(const std::string& token) {
        const auto [place, added] = m_ids.try_emplace(token, static_cast<int32_t>(m_tokens.size()));
        if (added) m_tokens.push_back(token);
        return place->second;
    }

    void add(uint64_t pair, int64_t count, int32_t word, bool there) {
        m_counts[pair] += count;
        if (!there) return;
        WordPlaces& words = m_new[pair];
        if (words.empty() || words.back() != word) words.push_back(word);
    }

    /// Pairs that have come up since the last call.
    void queue_new() {
        for (auto& [pair, words] : m_new) {
            if (const int64_t count = m_counts[pair]; count > 0)
                m_queue.push({count, pair, m_order, std::move(words)});
        }
        ++m_order;
        m_new.clear();
    }

    void merge(const MergeCandidate& top) {
        const auto left = static_cast<int32_t>(top.pair >> 32),
                   right = static_cast<int32_t>(top.pair & 0xFFFFFFFFu);
        const int32_t merged =
            id_of(m_tokens[static_cast<size_t>(left)] + m_tokens[static_cast<size_t>(right)]);
        m_merges.push_back(top.pair);
        for (const int32_t w : top.words) {
            auto& [ids, count] = m_words[static_cast<size_t>(w)];
            size_t to = 0; // what is before it is done
            for (size_t from = 0; from < ids.size(); ++from, ++to) {
                if (ids[from] != left || from + 1 == ids.size() || ids[from + 1] != right) {
                    ids[to] = ids[from];
                    continue;
                }
                if (to > 0) {
                    add(pair_key(ids[to - 1], left), -count, w, false);
                    add(pair_key(ids[to - 1], merged), count, w, true);
                }
                if (from + 2 < ids.size()) {
                    add(pair_key(right, ids[from + 2]), -count, w, false);
                    add(pair_key(merged, ids[from + 2]), count, w, true);
                }
                ids[to] = merged;
                ++from;
            }
            ids.resize(to);
        }
    }

    std::vector<std::string> m_tokens;
    std::unordered_map<std::string, int32_t> m_ids;
    std::array<int32_t, 256> m_byte_ids{};
    std::vector<Word> m_words;
    std::unordered_map<uint64_t, int64_t, Bpe::PairHash> m_counts;
    std::unordered_map<uint64_t, WordPlaces, Bpe::PairHash> m_new; ///< words of pairs that have come up
    std::priority_queue<MergeCandidate, std::vector<MergeCandidate>, MergedLater> m_queue;
    std::vector<uint64_t> m_merges;
    uint64_t m_order = 0;
};

} // namespace

TrainedBpe train_bpe(const WordCounts& words, const std::vector<std::string>& specials, int64_t vocab,
                     const std::function<bool(double done)>& progress) {
    RL_ASSERT(vocab >= std::ssize(specials) + 256);
    BpeLearner trainer(words, specials);
    trainer.learn(vocab, progress);
    return trainer.take();
}

} // namespace refreshlab
