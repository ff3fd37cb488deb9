#include "tests/engine/tasks/text_cuts.h"

#include <catch2/catch_test_macros.hpp>

namespace refreshlab::test {

std::string CutText::text() const {
    std::string joined;
    for (const std::string& token : tokens)
        joined += token;
    return joined;
}

std::vector<int64_t> CutText::holders(size_t begin, size_t end) const {
    std::vector<int64_t> found;
    size_t at = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
        const size_t next = at + tokens[i].size();
        if (at < end && next > begin && next > at) found.push_back(static_cast<int64_t>(i) + 1);
        at = next;
    }
    return found;
}

bool CutText::all_hit(size_t begin, size_t end) const {
    for (const int64_t token : holders(begin, end)) {
        if (!hits[static_cast<size_t>(token - 1)].value_or(true)) return false;
    }
    return true;
}

CutText cut(const std::string& text, bool given, std::mt19937_64& random) {
    CutText result;
    for (size_t at = 0; at < text.size();) {
        const size_t length = chance(random, 5) ? 0 : 1 + random() % 6;
        result.tokens.push_back(text.substr(at, length));
        at += result.tokens.back().size();
    }
    for (size_t i = 0; i < result.tokens.size(); ++i)
        result.hits.push_back(given ? std::optional(!chance(random, 10)) : std::nullopt);
    return result;
}

std::map<int64_t, bool> run_scorer(TaskScorer& scorer, const CutText& text) {
    std::map<int64_t, bool> verdicts;
    const auto take = [&](const std::vector<Verdict>& news, int64_t now) {
        for (const Verdict& verdict : news) {
            REQUIRE(verdict.token >= 1);
            REQUIRE(verdict.token <= now);
            // Two words may share a token; then the later verdict stands.
            verdicts[verdict.token] = verdict.right;
        }
    };
    for (size_t i = 0; i < text.tokens.size(); ++i)
        take(scorer.advance(text.tokens[i], text.hits[i]), static_cast<int64_t>(i) + 1);
    take(scorer.finish(), static_cast<int64_t>(text.tokens.size()));
    return verdicts;
}

} // namespace refreshlab::test
