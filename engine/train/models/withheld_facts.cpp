#include "engine/train/models/withheld_facts.h"

#include "engine/tasks/fact_reader.h"
#include "engine/text/digest.h"
#include "engine/text/utf8.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <tuple>
#include <utility>

namespace refreshlab {

namespace {

using Ids = std::vector<int32_t>;

/// The words of each attribute, as tokens.
class Words {
public:
    Words(const Almanac& almanac, const Tokenizer& tokenizer)
        : m_tokenizer(tokenizer) {
        for (const auto& [name, facts] : almanac)
            for (size_t attribute = 0; attribute < num_attributes; ++attribute)
                m_words[attribute].insert(facts[attribute]);
    }

    /// All words of an attribute between these bytes, as the text has one of them there; empty where the bytes are no text.
    /// \param ids  the text's
    const std::vector<Ids>& between(size_t attribute, const std::string& lead, const std::string& tail,
                                    std::span<const int32_t> ids) {
        // A tokenizer may give a word that begins a text other tokens than one behind another word.
        const std::vector<Ids>& first = encoded(attribute, lead, tail, "");
        const std::vector<Ids>& behind = encoded(attribute, lead, tail, "x");
        return most_shared(behind, ids) > most_shared(first, ids) ? behind : first;
    }

private:
    const std::vector<Ids>& encoded(size_t attribute, const std::string& lead, const std::string& tail,
                                    const std::string& before) {
        const auto [found, fresh] = m_encoded.try_emplace(std::tuple(attribute, lead, tail, before));
        if (!fresh || first_invalid_utf8(lead) || first_invalid_utf8(tail)) return found->second;
        const auto skipped = std::ssize(m_tokenizer.encode(before));
        for (const std::string& word : m_words[attribute]) {
            Ids ids = m_tokenizer.encode(before + lead + word + tail);
            ids.erase(ids.begin(), ids.begin() + std::min(skipped, std::ssize(ids)));
            found->second.push_back(std::move(ids));
        }
        return found->second;
    }

    /// Tokens that the word most like the text's shares with it.
    static int64_t most_shared(const std::vector<Ids>& words, std::span<const int32_t> ids) {
        int64_t most = 0;
        for (const Ids& word : words)
            most = std::max<int64_t>(most, std::ranges::mismatch(word, ids).in1 - word.begin());
        return most;
    }

    const Tokenizer& m_tokenizer;
    std::array<std::set<std::string>, num_attributes> m_words;
    std::map<std::tuple<size_t, std::string, std::string, std::string>, std::vector<Ids>> m_encoded;
};

/// What comes behind the first tokens of a word that is one of these; null where no word goes on.
/// \param next  the token behind the text's word, which follows a word that is over; nothing: the text ends there
std::shared_ptr<const TokenShares> next_of(const std::vector<Ids>& words, std::span<const int32_t> tokens,
                                           std::optional<int32_t> next) {
    std::map<int32_t, int64_t> counts;
    int64_t all = 0;
    bool goes_on = false;
    for (const Ids& word : words) {
        if (word.size() < tokens.size() || !std::equal(tokens.begin(), tokens.end(), word.begin())) continue;
        const bool over = word.size() == tokens.size();
        if (over && !next) continue;
        goes_on = goes_on || !over;
        ++counts[over ? *next : word[tokens.size()]];
        ++all;
    }
    if (!goes_on) return nullptr;
    auto shares = std::make_shared<TokenShares>();
    for (const auto& [id, count] : counts) {
        shares->ids.push_back(id);
        shares->shares.push_back(static_cast<float>(static_cast<double>(count) / static_cast<double>(all)));
    }
    return shares;
}

/// Where a byte of a text is.
struct Place {
    int64_t token = 0;
    size_t byte = 0; ///< of the token
};

int64_t note_facts_of(TrainingText& text, const Almanac& almanac, const Tokenizer& tokenizer, Words& words) {
    FactReader reader(true);
    std::map<std::string, int64_t> told; // by name: where it is complete first
    Place begin, last;                   // of the word that is read
    int64_t facts = 0;
    const auto note = [&](const FactReader::Word& word) {
        if (!word.attribute) {
            told.try_emplace(word.name, last.token);
            return;
        }
        if (begin.token == 0 || !almanac.contains(word.name)) return;
        ++facts;
        const auto size = static_cast<size_t>(last.token - begin.token + 1);
        const std::span ids = std::span(text.ids).subspan(static_cast<size_t>(begin.token));
        const std::string lead(tokenizer.token_bytes(ids.front()).substr(0, begin.byte)),
            tail(tokenizer.token_bytes(ids[size - 1]).substr(last.byte + 1));
        const auto& candidates = words.between(*word.attribute, lead, tail, ids.first(size));
        const std::optional<int32_t> next = size < ids.size() ? std::optional(ids[size]) : std::nullopt;
        for (size_t i = 0; i < std::min(size + 1, ids.size()); ++i) {
            const int64_t position = begin.token + static_cast<int64_t>(i);
            const auto target = next_of(candidates, ids.first(i), next);
            if (target == nullptr) break;
            if (text.withheld.empty() || text.withheld.back().position < position)
                text.withheld.push_back({position, told.at(word.name), target});
        }
    };
    const auto take = [&](char c, Place place) {
        if (const auto word = reader.take(c)) note(*word);
        if (reader.word_bytes() == 1) begin = place;
        if (reader.word_bytes() > 0) last = place;
    };
    text.withheld.clear();
    for (int64_t token = 0; token < std::ssize(text.ids); ++token) {
        const int32_t id = text.ids[static_cast<size_t>(token)];
        const std::string_view bytes =
            tokenizer.is_special(id) ? std::string_view("\n") : tokenizer.token_bytes(id);
        for (size_t byte = 0; byte < bytes.size(); ++byte)
            take(bytes[byte], {token, byte});
    }
    take('\n', {});
    return facts;
}

} // namespace

int64_t note_facts(std::vector<TrainingText>& texts, const Almanac& almanac, const Tokenizer& tokenizer) {
    Words words(almanac, tokenizer);
    int64_t facts = 0;
    for (TrainingText& text : texts)
        facts += note_facts_of(text, almanac, tokenizer, words);
    return facts;
}

RowTargets withheld_rows(const TrainingText& text, const ReadingPlan& plan) {
    RowTargets targets;
    for (const WithheldToken& token : text.withheld) {
        const int64_t row = token.position - 1 - plan.first;
        if (row < 0) continue;
        const int64_t refreshed =
            plan.refreshed.empty() ? plan.first : plan.refreshed[static_cast<size_t>(row)];
        if (token.name < refreshed) continue; // the name's entry is the teacher's
        targets.rows.push_back(row);
        targets.shares.push_back(token.target);
    }
    return targets;
}

std::string almanac_digest(const Almanac& almanac) {
    Digest digest;
    for (const auto& [name, facts] : almanac) {
        digest.add(name);
        for (const std::string& word : facts)
            digest.add(word);
    }
    return digest.hex();
}

} // namespace refreshlab
