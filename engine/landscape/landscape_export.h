#pragma once

#include "engine/landscape/landscape.h"
#include "engine/landscape/objective.h"
#include "engine/refresh/policy.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace refreshlab {

/// What a summary tells beside what every one does.
struct LandscapeQuestions {
    int64_t best = 16;                   ///< best and blind schedules of 1 .. so many refreshes
    std::optional<double> price;         ///< a refresh, of the sum over the text, in the objective's unit
    std::optional<RefreshPolicy> policy; ///< walked through it
    Objective objective =
        Objective::loss; ///< the landscape has its value                            (asserted)
    std::string why;     ///< why this one; empty: a person chose it
};

/// Numbers of a landscape (docs/howto/landscape.md has every key): objective, unit, tokens, rows, complete, teacher, none, best [{refreshes, loss,
/// loss_above_teacher, steps}], blind [{refreshes, stride, loss, steps, mean_loss, worst_loss, worst_steps}], hull, price, policy {name, refreshes,
/// loss, steps, probes, efficiency, exact, drafts}. Losses are means over y_2 .. y_N under the objective; where that is
/// tokens_a_pass every schedule has `tokens_a_pass` too. A number that does not exist is null.
/// Throws Error{bad_input} for a policy that has no staircase.
[[nodiscard]] nlohmann::json landscape_summary(const Landscape& landscape,
                                               const LandscapeQuestions& questions);
/// The same as an aligned table for a person.
[[nodiscard]] std::string landscape_table(const Landscape& landscape, const LandscapeQuestions& questions);

/// One .npz that numpy.load() reads: prompt_ids [L] and tokens [N] int32, teacher_logprob [N] float32, rows [R] and steps [N - 1]
/// int64, and every value as float32 [R, N - 1]: the cell of rows[r] and steps[i], NaN on and below the diagonal.
/// Throws Error{bad_input} where the file cannot be written or would be larger than 2 GiB.
void export_landscape_npz(const Landscape& landscape, const std::filesystem::path& path);

/// schedules.csv (kind, refreshes, loss, loss_above_teacher, efficiency, steps, objective) with the best and the blind schedules, and
/// frontiers.csv (policy, signal, threshold, refreshes, loss, loss_above_teacher, efficiency, objective) with a row for every threshold of
/// frontier_policies(), into folder (made if missing). Throws Error{bad_input}.
void export_landscape_csv(const Landscape& landscape, const std::filesystem::path& folder, int64_t best = 32,
                          Objective objective = Objective::loss);

} // namespace refreshlab
