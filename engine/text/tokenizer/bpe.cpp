#include "engine/text/tokenizer/bpe.h"

#include "engine/text/digest.h"
#include "engine/text/tokenizer/byte_alphabet.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

namespace refreshlab {

namespace {

constexpr uint64_t pair_of(int32_t left, int32_t right) {
    return (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
}

constexpr const char* supported_models =
    "supported are byte-level BPE (GPT-2, Llama 3, Qwen) and BPE with byte fallback (Llama 2, Mistral)";

std::string shown(const std::string& piece) {
    return visible_text(piece, 60);
}

/// One character, several times.
bool is_run(std::string_view piece) {
    if (piece.empty()) return false;
    const size_t first = utf8_step(piece, 0).length;
    bool run = piece.size() > first && piece.size() % first == 0;
    for (size_t at = first; run && at < piece.size(); at += first)
        run = piece.substr(at, first) == piece.substr(0, first);
    return run;
}

/// A piece of a word during merging; pieces form a doubly linked list by index, -1 is the end.
struct Symbol {
    int32_t id;
    int32_t previous;
    int32_t next;
    bool alive;
};

struct Candidate {
    int32_t rank;
    int32_t left; ///< index of the left symbol
    int32_t merged;
    /// For std::priority_queue, which gives the largest: lowest rank first, then leftmost.
    [[nodiscard]] bool operator<(const Candidate& other) const {
        return std::tie(rank, left) > std::tie(other.rank, other.left);
    }
};

} // namespace

Bpe::Bpe(const FileFields& fields, Alphabet alphabet)
    : m_alphabet(alphabet) {
    const std::string type = fields.text("type", "BPE");
    if (type != "BPE") {
        fields.fail("type", fmt::format("{} is not supported", shown(type)), supported_models);
    }
    if (const auto* dropout = fields.find("dropout"); dropout != nullptr && *dropout != 0) {
        fields.fail("dropout", "not supported", "it makes ids random");
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
        if (!fields.text(key, "").empty()) fields.fail(key, "not supported", supported_models);
    }
    m_ignore_merges = fields.boolean("ignore_merges", false);
    m_fuse_unknown = fields.boolean("fuse_unk", false);
    m_byte_fallback = fields.boolean("byte_fallback", false);
    read_vocab(fields);
    read_merges(fields);
    find_byte_ids(fields);
    find_unknown(fields);
}

void Bpe::find_byte_ids(const FileFields& fields) {
    m_byte_ids.fill(-1);
    for (unsigned byte = 0; byte < 256; ++byte) {
        if (m_alphabet == Alphabet::characters && !m_byte_fallback) break;
        const auto found =
            m_vocab.find(m_alphabet == Alphabet::bytes ? ByteAlphabet::character(static_cast<uint8_t>(byte))
                                                       : fmt::format("<0x{:02X}>", byte));
        if (found != m_vocab.end()) m_byte_ids[byte] = found->second;
    }
    const bool all = std::find(m_byte_ids.begin(), m_byte_ids.end(), -1) == m_byte_ids.end();
    if (m_alphabet == Alphabet::bytes && m_byte_fallback && !all) {
        fields.fail("byte_fallback", "not supported in a byte-level model that lacks bytes");
    }
}

void Bpe::find_unknown(const FileFields& fields) {
    const std::string unknown = fields.text("unk_token", "");
    if (unknown.empty()) return;
    const auto found = m_vocab.find(unknown);
    if (found != m_vocab.end()) {
        m_unknown = found->second;
    } else if (std::find(m_byte_ids.begin(), m_byte_ids.end(), -1) != m_byte_ids.end()) {
        fields.fail("unk_token", fmt::format("\"{}\" is not in the vocabulary", shown(unknown)));
    }
}

void Bpe::read_vocab(const FileFields& fields) {
    const FileFields vocab = fields.object("vocab");
    if (vocab.json().empty()) fields.fail("vocab", "empty");
    m_vocab.reserve(vocab.json().size());
    for (const auto& [piece, value] : vocab.json().items()) {
        if (!value.is_number_integer() || value < 0 || value > max_token_id) {
            vocab.fail("", fmt::format("\"{}\" needs a whole number from 0 to {} as its id", shown(piece),
                                       max_token_id));
        }
        const auto id = value.get<int32_t>();
        m_vocab.emplace(piece, id);
        m_largest_id = std::max(m_largest_id, id);
        if (m_alphabet == Alphabet::bytes) {
            if (!m_ignore_merges) continue;
            if (auto bytes = ByteAlphabet::bytes(piece)) m_whole.emplace(std::move(*bytes), id);
        } else if (!piece.empty()) {
            if (m_ignore_merges) m_whole.emplace(piece, id);
            const Utf8Step first = utf8_step(piece, 0);
            if (first.length == piece.size()) m_characters.emplace(first.code_point, id);
        }
    }
    std::vector<bool> taken(static_cast<size_t>(m_largest_id) + 1);
    for (const auto& [piece, id] : m_vocab) {
        if (taken[static_cast<size_t>(id)]) {
            vocab.fail("", fmt::format("id {} is given to two pieces, one of them \"{}\"", id, shown(piece)));
        }
        taken[static_cast<size_t>(id)] = true;
    }
}

void Bpe::read_merges(const FileFields& fields) {
    if (fields.find("merges") == nullptr) {
        fields.fail("", "merges missing; is this a SentencePiece model that was not converted?",
                    supported_models);
    }
    const nlohmann::json& merges = fields.array("merges");
    m_merges.reserve(merges.size());
    size_t rank = 0;
    for (const nlohmann::json& entry : merges) {
        if (entry.is_string()) { // "left right", the older spelling
            const auto& line = entry.get_ref<const std::string&>();
            if (line.starts_with("#version")) continue;
            const size_t space = line.find(' ');
            if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos) {
                fields.fail("merges", fmt::format("merge {}, \"{}\", is not two pieces with a space between",
                                                  rank, shown(line)));
            }
            add_merge(fields, rank, line.substr(0, space), line.substr(space + 1));
        } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
            add_merge(fields, rank, entry[0].get<std::string>(), entry[1].get<std::string>());
        } else {
            fields.fail("merges",
                        fmt::format("merge {} is neither \"left right\" nor [\"left\", \"right\"]", rank));
        }
        ++rank;
    }
}

void Bpe::add_merge(const FileFields& fields, size_t rank, const std::string& left,
                    const std::string& right) {
    const auto id_of = [&](const std::string& piece) {
        const auto found = m_vocab.find(piece);
        if (found == m_vocab.end()) {
            fields.fail("merges", fmt::format("merge {} names \"{}\", which is not in the vocabulary", rank,
                                              shown(piece)));
        }
        return found->second;
    };
    const int32_t left_id = id_of(left);
    const int32_t right_id = id_of(right);
    // A pair that is listed twice has the later rank, as in the reference.
    m_merges[pair_of(left_id, right_id)] = {static_cast<int32_t>(rank), id_of(left + right)};
}

void Bpe::describe(Digest& digest) const {
    const bool bytes = m_alphabet == Alphabet::bytes;
    std::vector<std::pair<uint64_t, Merge>> merges(m_merges.begin(), m_merges.end());
    std::sort(merges.begin(), merges.end(),
              [](const auto& a, const auto& b) { return a.second.rank < b.second.rank; });
    std::unordered_map<int32_t, const std::string*> pieces;
    for (const auto& [piece, id] : m_vocab) {
        if (!bytes) pieces.emplace(id, &piece);
    }
    // Of characters: the merges that make one piece share its place, and a run of one character has the place of what
    // stands before it.
    std::unordered_map<int32_t, uint64_t> places;
    std::vector<std::pair<uint64_t, uint64_t>> ranked;
    for (const auto& [pair, merge] : merges) {
        uint64_t place = ranked.size();
        if (!bytes)
            place = is_run(*pieces.at(merge.merged))
                        ? places.size()
                        : places.try_emplace(merge.merged, places.size()).first->second;
        ranked.emplace_back(place, pair);
    }
    std::sort(ranked.begin(), ranked.end());
    for (const auto& [place, pair] : ranked) {
        digest.add(place);
        digest.add(pair);
    }
    digest.add(uint64_t{m_ignore_merges});
    // An unknown token counts where something can be unknown.
    const bool lacks_bytes = std::find(m_byte_ids.begin(), m_byte_ids.end(), -1) != m_byte_ids.end();
    if (m_unknown && lacks_bytes) {
        digest.add(static_cast<uint64_t>(*m_unknown) + 1);
        digest.add(uint64_t{m_fuse_unknown});
    }
    if (!bytes) digest.add(m_byte_fallback ? "characters, bytes" : "characters");
}

std::vector<int32_t> Bpe::first_ids(std::string_view word) const {
    std::vector<int32_t> ids;
    ids.reserve(word.size());
    std::optional<int32_t> unknown; // found and not written yet
    if (m_alphabet == Alphabet::bytes) {
        for (const char c : word) {
            const int32_t id = m_byte_ids[static_cast<unsigned char>(c)];
            if (id >= 0) {
                if (unknown) ids.push_back(*std::exchange(unknown, std::nullopt));
                ids.push_back(id);
            } else if (
                m_unknown) { // without one a byte that the vocabulary lacks vanishes, as in the reference
                if (unknown && !m_fuse_unknown) ids.push_back(*unknown);
                unknown = m_unknown;
            }
        }
    } else {
        for (size_t at = 0; at < word.size();) {
            const Utf8Step step = utf8_step(word, at);
            append_character(step.code_point, word.substr(at, step.length), ids, unknown);
            at += step.length;
        }
    }
    if (unknown) ids.push_back(*unknown);
    return ids;
}

void Bpe::append_character(char32_t character, std::string_view bytes, std::vector<int32_t>& ids,
                           std::optional<int32_t>& unknown) const {
    if (const auto found = m_characters.find(character); found != m_characters.end()) {
        if (unknown) ids.push_back(*std::exchange(unknown, std::nullopt));
        ids.push_back(found->second);
        return;
    }
    const auto byte_id = [this](char c) { return m_byte_ids[static_cast<unsigned char>(c)]; };
    if (std::all_of(bytes.begin(), bytes.end(), [&](char c) { return byte_id(c) >= 0; })) {
        // An unknown token before bytes comes after them: an oddity of the reference, which ids must share.
        for (const char c : bytes)
            ids.push_back(byte_id(c));
    } else if (m_unknown) {
        if (unknown && !m_fuse_unknown) ids.push_back(*unknown);
        unknown = m_unknown;
    }
}

void Bpe::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
    if (m_ignore_merges) {
        if (const auto found = m_whole.find(std::string(word)); found != m_whole.end()) {
            ids.push_back(found->second);
            return;
        }
    }
    const std::vector<int32_t> first = first_ids(word);
    std::vector<Symbol> symbols;
    symbols.reserve(first.size());
    const auto count = static_cast<int32_t>(first.size());
    for (int32_t i = 0; i < count; ++i)
        symbols.push_back({first[static_cast<size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1, true});
    std::priority_queue<Candidate> queue;
    const auto consider = [&](int32_t left) {
        const Symbol& symbol = symbols[static_cast<size_t>(left)];
        if (symbol.next < 0) return;
        const auto merge = m_merges.find(pair_of(symbol.id, symbols[static_cast<size_t>(symbol.next)].id));
        if (merge != m_merges.end()) queue.push({merge->second.rank, left, merge->second.merged});
    };
    for (size_t i = 0; i + 1 < symbols.size(); ++i)
        consider(static_cast<int32_t>(i));
    while (!queue.empty()) {
        const Candidate best = queue.top();
        queue.pop();
        Symbol& left = symbols[static_cast<size_t>(best.left)];
        if (!left.alive || left.next < 0) continue;
        Symbol& right = symbols[static_cast<size_t>(left.next)];
        // Stale: one of the two has been merged otherwise since. What counts is the result, as in the reference.
        const auto merge = m_merges.find(pair_of(left.id, right.id));
        if (merge == m_merges.end() || merge->second.merged != best.merged) continue;
        left.id = best.merged;
        left.next = right.next;
        right.alive = false;
        if (right.next >= 0) symbols[static_cast<size_t>(right.next)].previous = best.left;
        if (left.previous >= 0) consider(left.previous);
        consider(best.left);
    }
    for (const Symbol& symbol : symbols) {
        if (symbol.alive) ids.push_back(symbol.id);
    }
}

} // namespace refreshlab
