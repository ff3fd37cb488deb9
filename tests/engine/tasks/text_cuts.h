#pragma once

#include "engine/tasks/task_scorer.h"

#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace refreshlab::test {

/// A text as tokens: pieces of bytes, some empty (special tokens), some cutting characters; with or without hits.
struct CutText {
    std::vector<std::string> tokens;
    std::vector<std::optional<bool>> hits;
    [[nodiscard]] std::string text() const;
    /// Tokens (from 1) that hold the bytes [begin, end) of text().
    [[nodiscard]] std::vector<int64_t> holders(size_t begin, size_t end) const;
    [[nodiscard]] bool given() const { return !hits.empty() && hits[0].has_value(); }
    [[nodiscard]] bool all_hit(size_t begin, size_t end) const;
};
[[nodiscard]] CutText cut(const std::string& text, bool given, std::mt19937_64& random);

/// Verdict by token; fails the test when a verdict names a token that has not come yet. Two words may share a
/// token: the later verdict stands.
[[nodiscard]] std::map<int64_t, bool> run_scorer(TaskScorer& scorer, const CutText& text);

[[nodiscard]] inline bool chance(std::mt19937_64& random, int percent) {
    return static_cast<int>(random() % 100) < percent;
}
template <class List>
[[nodiscard]] auto pick(const List& list, std::mt19937_64& random) {
    return *std::next(list.begin(), static_cast<std::ptrdiff_t>(random() % list.size()));
}

} // namespace refreshlab::test
