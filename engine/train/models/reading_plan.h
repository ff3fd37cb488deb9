#pragma once

#include <cstdint>
#include <vector>

namespace refreshlab {

/// In which ways a student reads the texts that it is trained on, as shares of the texts.
struct ReadingShares {
    double alone = 0;     ///< no entry is the teacher's
    double prefix = 0.25; ///< behind a prefix of the teacher's, without a refresh
    /// Such a prefix, and a refresh every R tokens. The rest is read so.
    [[nodiscard]] double refreshed() const { return 1 - alone - prefix; }
    int64_t longest =
        64; ///< R is drawn from 1 to this, with a uniform logarithm; the first refresh comes after 1 to R tokens
};

/// How a student reads one text: rows of positions `first` and up, each with the position below which it reads the teacher's entries.
struct ReadingPlan {
    int64_t first = 0;              ///< length of the teacher's prefix
    std::vector<int64_t> refreshed; ///< of each row (TrainablePass::Around); empty: `first` for all
};
/// Prefixes have 1 to tokens / 2 tokens.
/// \param tokens  of the text, 4 or more                                                                   (asserted)
/// \param number  of the text among all that are read: what is drawn depends on it and the seed alone
[[nodiscard]] ReadingPlan drawn_reading(const ReadingShares& shares, int64_t tokens, uint64_t seed,
                                        int64_t number);
/// With refreshes at these boundaries of a session whose prompt has `prompt` tokens, ascending.
[[nodiscard]] ReadingPlan reading_with(int64_t prompt, const std::vector<int64_t>& boundaries,
                                       int64_t tokens);

} // namespace refreshlab
