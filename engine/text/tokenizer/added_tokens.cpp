#include "engine/text/tokenizer/added_tokens.h"

#include "engine/text/regex/regex.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace refreshlab {

namespace {

constexpr size_t max_content_bytes = 1024; // a match attempt costs at most this at each place of a text

bool matches_one(const Regex& one, std::string_view character) {
    return Regex::Matches(one, character).next().has_value();
}

bool is_word_character(std::string_view character) {
    static const Regex word("[\\w\\x{200C}\\x{200D}]", "word characters");
    return matches_one(word, character);
}

bool is_space(char32_t c) { // White_Space of Unicode; the list has not changed since version 6.3
    return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
           c == 0x3000;
}

/// The character that ends right before offset. \param offset  > 0, on a boundary
std::string_view character_before(std::string_view text, size_t offset) {
    size_t begin = offset - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80)
        --begin;
    return text.substr(begin, offset - begin);
}

size_t spaces_before(std::string_view text, size_t offset, size_t not_before) {
    while (offset > not_before) {
        const std::string_view character = character_before(text, offset);
        if (!is_space(utf8_step(character, 0).code_point)) break;
        offset -= character.size();
    }
    return offset;
}

size_t spaces_behind(std::string_view text, size_t offset) {
    while (offset < text.size()) {
        const Utf8Step step = utf8_step(text, offset);
        if (!is_space(step.code_point)) break;
        offset += step.length;
    }
    return offset;
}

} // namespace

void WordTrie::add(std::string_view word, int32_t which) {
    size_t node = 0;
    for (const char c : word) {
        const uint64_t key = (uint64_t{node} << 8) | static_cast<unsigned char>(c);
        const auto [child, fresh] = m_children.emplace(key, static_cast<int32_t>(m_ends.size()));
        if (fresh) m_ends.push_back(-1);
        node = static_cast<size_t>(child->second);
    }
    if (node != 0 && m_ends[node] < 0) m_ends[node] = which;
}

WordTrie::Found WordTrie::longest(std::string_view text, size_t offset) const {
    Found best{0, -1};
    size_t node = 0;
    for (size_t at = offset; at < text.size(); ++at) {
        const auto child = m_children.find((uint64_t{node} << 8) | static_cast<unsigned char>(text[at]));
        if (child == m_children.end()) break;
        node = static_cast<size_t>(child->second);
        if (m_ends[node] >= 0) best = {at + 1 - offset, m_ends[node]};
    }
    return best;
}

AddedTokens::AddedTokens(const FileFields& root, const Bpe& bpe, const Normalizer& normalizer) {
    if (root.find("added_tokens") == nullptr) return;
    const size_t count = root.array("added_tokens").size();
    std::unordered_map<std::string, int32_t> ids;
    const auto vocab_size = static_cast<int64_t>(bpe.vocab().size());
    int64_t largest = -1;
    for (size_t i = 0; i < count; ++i) {
        const FileFields fields = root.element("added_tokens", i);
        AddedToken token;
        token.content = fields.text("content");
        token.special = fields.boolean("special", false);
        token.single_word = fields.boolean("single_word", false);
        token.lstrip = fields.boolean("lstrip", false);
        token.rstrip = fields.boolean("rstrip", false);
        token.normalized = fields.boolean("normalized", !token.special);
        const nlohmann::json* id = fields.find("id");
        if (id == nullptr || !id->is_number_integer() || *id < 0 || *id > max_token_id) {
            fields.fail("id", fmt::format("a whole number from 0 to {} expected", max_token_id));
        }
        token.id = id->get<int32_t>();
        if (token.content.empty()) fields.fail("content", "empty");
        if (token.content.size() > max_content_bytes) {
            fields.fail("content", fmt::format("longer than {} bytes", max_content_bytes));
        }
        const std::string shown = visible_text(token.content, 60);
        // The reference numbers added tokens itself: those of the vocabulary keep their id, others follow on.
        int64_t expected = std::max(largest + 1, vocab_size);
        if (const auto known = bpe.vocab().find(token.content); known != bpe.vocab().end())
            expected = known->second;
        if (!ids.emplace(token.content, token.id).second)
            fields.fail("content", fmt::format("\"{}\" is listed twice", shown));
        if (token.id != expected) {
            fields.fail("id", fmt::format("\"{}\" has id {}, but its place in the vocabulary gives {}", shown,
                                          token.id, expected));
        }
        if (!m_by_id.emplace(token.id, token).second)
            fields.fail("id", fmt::format("{} is given twice", token.id));
        largest = std::max<int64_t>(largest, token.id);
        m_listed.push_back(std::move(token));
    }
    // Special tokens first: where two normalise to the same text the first one counts.
    for (const bool special : {true, false}) {
        for (const AddedToken& token : m_listed) {
            if (token.special != special) continue;
            if (!token.normalized) {
                m_raw.add(token.content, token.id);
            } else {
                m_normalized.add(normalizer.apply(token.content), token.id);
            }
        }
    }
}

void AddedTokens::split(std::string_view text, const Normalizer& normalizer,
                        const std::function<void(int32_t)>& token, const OnPiece& piece) const {
    find(text, m_raw, token, [&](std::string_view between, bool at_start) {
        const OnPiece inner = [&](std::string_view part, bool first) { piece(part, at_start && first); };
        if (normalizer.is_identity()) {
            find(between, m_normalized, token, inner);
        } else {
            find(normalizer.apply(between), m_normalized, token, inner);
        }
    });
}

void AddedTokens::find(std::string_view text, const WordTrie& trie, const std::function<void(int32_t)>& token,
                       const OnPiece& rest) const {
    size_t done = 0;
    for (size_t at = 0; at < text.size() && !trie.empty();) {
        const WordTrie::Found found = trie.longest(text, at);
        if (found.which < 0) {
            ++at;
            continue;
        }
        const AddedToken& added = m_by_id.at(found.which);
        size_t begin = at;
        size_t end = at + found.length;
        at = end; // the search goes on after the word even where its spaces reach further
        if (added.single_word &&
            ((begin > 0 && is_word_character(character_before(text, begin))) ||
             (end < text.size() && is_word_character(text.substr(end, utf8_step(text, end).length))))) {
            continue;
        }
        if (added.lstrip) begin = std::max(done, spaces_before(text, begin, std::min(done, begin)));
        if (added.rstrip) end = spaces_behind(text, end);
        if (done < begin) rest(text.substr(done, begin - done), done == 0);
        token(added.id);
        done = end;
    }
    if (done < text.size()) rest(text.substr(done), done == 0);
}

} // namespace refreshlab
