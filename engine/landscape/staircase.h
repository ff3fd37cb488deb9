#pragma once

#include "engine/landscape/expected_drafts.h"
#include "engine/landscape/landscape.h"
#include "engine/landscape/objective.h"
#include "engine/refresh/policy.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace refreshlab {

/// The way of a policy or a schedule through a landscape: it stands in row j, goes along the columns, and drops to row i after a
/// refresh at boundary i.
struct Staircase {
    std::vector<int64_t> refreshes; ///< boundaries, ascending
    std::vector<int64_t> probes;    ///< boundaries at which the teacher read without a splice
    std::vector<int64_t> rows;      ///< [N - 1]: the row in which step i stood, of steps 1, 2, ...
    double loss = 0;                ///< mean over y_2 .. y_N under the objective
    /// Of a policy that verifies: its drafts, all taken to stand. A run would be cut where one ends, and write on from there.
    std::vector<ExpectedDraft> drafts;
    /// First refresh into a row that was not computed: from there on the row nearest below stands in for it. Nothing: all
    /// of it is exact.
    std::optional<int64_t> exact_until;
};

/// The staircase of refreshes at these boundaries, ascending, each in 1 .. N - 2                          (asserted)
[[nodiscard]] Staircase walk_schedule(const Landscape& landscape, std::span<const int64_t> refreshes,
                                      Objective objective = Objective::loss);

/// Walks a policy through the landscape: the planner's own decide() at every boundary, reading what the row says there. A KL
/// trigger sees its signal at its probes alone, as it would live. Refreshes and losses are those of a session that runs this
/// policy on this text, exactly. A policy that verifies is walked as if every draft stood; one that grows to longest_draft is judged there.
/// Throws Error{bad_input} for what a landscape cannot answer (why_no_staircase()).
/// Cost: N calls of decide().
[[nodiscard]] Staircase walk_policy(const Landscape& landscape, const RefreshPolicy& policy,
                                    Objective objective = Objective::loss);

/// Why a policy has no staircase: windowed or lagged refreshes keep history, on_fire other than keep has nothing to draw on a
/// given text (verify is told as why_no_drafts() says), a signal is not among the landscape's values. Empty where it has one.
/// \param values  LandscapeInfo::values
[[nodiscard]] std::string why_no_staircase(std::span<const std::string> values, const RefreshPolicy& policy);
[[nodiscard]] inline std::string why_no_staircase(const Landscape& landscape, const RefreshPolicy& policy) {
    return why_no_staircase(landscape.info().values, policy);
}

/// Sum of the losses of row a over steps a + 1 .. b: c(a, b). 0 where b <= a.
[[nodiscard]] double row_cost(const Landscape& landscape, int64_t a, int64_t b);

/// What a refresh at boundary i saves for one that stands in row j, over the steps i + 1 .. i + horizon, in the objective's unit: the sum
/// of C[j, .] - C[i, .] there; under tokens_a_pass expected tokens more. Both rows are computed, j < i   (asserted)
[[nodiscard]] double refresh_gain(const Landscape& landscape, int64_t j, int64_t i,
                                  std::optional<int64_t> horizon = {}, Objective objective = Objective::loss);

} // namespace refreshlab
