#pragma once

#include "engine/landscape/landscape.h"
#include "engine/refresh/policy.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace refreshlab {

/// A draft of a policy that verifies, on a given text: what the student writes between two refreshes, and how much of it the teacher's
/// pass is expected to let out.
struct ExpectedDraft {
    int64_t first = 0; ///< boundary behind which it begins: its steps are first + 1 .. last
    int64_t last = 0;  ///< boundary of the pass that judges it; N - 1 at the end of the text
    /// Tokens that the pass lets out, 1 .. last - first: DraftRun over the row's acceptance. Where the draft would end is first + expected.
    double expected = 0;
    [[nodiscard]] int64_t tokens() const { return last - first; }
    friend bool operator==(const ExpectedDraft&, const ExpectedDraft&) = default;
};

/// Of drafts that are cut at these boundaries and at the end of the text. Acceptance is of the raw rows (sum min(p, q)): rule exact at
/// temperature 1 without filters. The landscape holds it (asserted).
/// \param rows  Staircase::rows: in which row each step stands
[[nodiscard]] std::vector<ExpectedDraft> expected_drafts(const Landscape& landscape,
                                                         std::span<const int64_t> refreshes,
                                                         std::span<const int64_t> rows);
/// What all of them are expected to let out, and drafted; per draft where there is one at least.
struct DraftMeans {
    double expected = 0, tokens = 0;
};
[[nodiscard]] DraftMeans means_of(std::span<const ExpectedDraft> drafts);

/// Why the drafts of a policy that verifies cannot be told: another rule than exact, a threshold that follows what stays, entries that are
/// not spliced, cells without acceptance. Empty where they can, and for a policy that does not verify.
/// \param values  LandscapeInfo::values
[[nodiscard]] std::string why_no_drafts(std::span<const std::string> values, const RefreshPolicy& policy);

} // namespace refreshlab
