#pragma once

#include "engine/record/recording/recording.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace refreshlab {

/// What a run's drafts came to (OnFire::verify). A token is judged where all before it in its draft stay; tokens given by hand are not.
struct DraftNumbers {
    /// The k-th token of a draft, over all drafts that come so far.
    struct Place {
        int64_t judged = 0, accepted = 0;
        double expected = 0; ///< sum of DraftToken::expected over the judged
    };
    int64_t drafts = 0, drafted = 0;
    int64_t judged = 0, accepted = 0;
    std::vector<Place> places;             ///< [0] is the first token of a draft
    std::vector<int64_t> accepted_lengths; ///< [n]: drafts of which n tokens stay
    int64_t tokens = 0;                    ///< that the drafts came to, those in place of others included
    std::optional<double> acceptance;      ///< accepted / judged
    std::optional<double>
        expected; ///< what acceptance should come to: mean of DraftToken::expected over the judged
    std::optional<double> tokens_per_pass; ///< tokens / drafts
    /// c: milliseconds of a student's step over those of a teacher's pass that judges a draft.
    std::optional<double> cost_ratio;
    /// How much faster than a teacher that makes such a pass for every token. Measured: (N - 1) passes over t_N - t_1. Predicted:
    /// (1 - a^g) / ((1 - a) (g c + 1)) with a = acceptance and g = drafted / drafts, the last token of a draft being judged here and not drawn
    /// anew. Source: Leviathan et al. 2023, theorem 3.8.
    std::optional<double> speed_up, predicted_speed_up;
};

/// Nothing where no draft was judged.
[[nodiscard]] std::optional<DraftNumbers> draft_numbers(const Recording& recording);
/// Keys as in docs/reference/summary.md, `drafts`.
[[nodiscard]] nlohmann::json to_json(const DraftNumbers& numbers);

} // namespace refreshlab
