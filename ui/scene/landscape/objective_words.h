#pragma once

#include "engine/landscape/expected_drafts.h"
#include "engine/landscape/objective.h"
#include "ui/scene/landscape/landscape_view.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace refreshlab::ui {

/// What a landscape is judged by now, and why, one line: what a person chose, where the cells tell it; else the usual one.
/// \param usual   default_objective() of the run that wrote the text
/// \param values  LandscapeInfo::values
[[nodiscard]] ChosenObjective shown_objective(const LandscapeView& view, const ChosenObjective& usual,
                                              std::span<const std::string> values);

/// A schedule's loss as tables and legends tell it: above the teacher's, whose own is no 0 under the loss alone; under tokens_a_pass the
/// expected tokens a teacher pass, k refreshes and the end of the text being k + 1 passes.
[[nodiscard]] double told_value(Objective objective, double teacher, double loss, int64_t steps,
                                int64_t refreshes);
/// "+0.123", "4.21".
[[nodiscard]] std::string told_number(Objective objective, double told);
/// "nats above the teacher", "nats of KL", "rejected", "tokens a pass": behind such a number.
[[nodiscard]] std::string_view told_unit(Objective objective);
/// Of a column of such numbers, and what it is.
[[nodiscard]] std::string_view told_label(Objective objective);
[[nodiscard]] std::string_view told_tip(Objective objective);

/// "3.6 of 5.0 drafted tokens expected to stay": of the drafts of a policy that verifies; empty where there are none.
[[nodiscard]] std::string draft_words(std::span<const ExpectedDraft> drafts);

/// Of a mean above the teacher's: "Loss above the teacher (nats)". \param brief  where there is little room
[[nodiscard]] std::string axis_label(Objective objective, bool brief = false);
/// Columns of a table of numbers: of the loss itself (under tokens_a_pass tokens a pass), and of it above the teacher's.
[[nodiscard]] std::string_view loss_column(Objective objective);
[[nodiscard]] std::string_view above_column(Objective objective);

} // namespace refreshlab::ui
