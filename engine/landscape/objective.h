#pragma once

#include "engine/landscape/landscape.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace refreshlab {

struct RunConfig;

/// What a schedule is judged by. Each is a cost of a cell, and a schedule's loss under it the mean over steps 1 .. N - 1 of what the
/// cells on its way cost. Lower is better.
enum class Objective : uint8_t {
    loss,          ///< -ln p_S(y_{i+1}): nats of the given token
    kl,            ///< KL(teacher || student) of the whole row, nats: no matter which token was written
    rejection,     ///< 1 - sum min(p, q): the chance that the teacher rejects a draw of the student's
    tokens_a_pass, ///< minus the chance that a draft begun at the last refresh lets the token out (DraftRun)
};
inline constexpr Objective objectives[] = {Objective::loss, Objective::kl, Objective::rejection,
                                           Objective::tokens_a_pass};

[[nodiscard]] std::string_view to_string(Objective objective); ///< as the enumerator
/// What a person reads behind a number: "nats", "tokens".
[[nodiscard]] std::string_view unit_of(Objective objective);
/// "KL(teacher || student)".
[[nodiscard]] std::string_view label_of(Objective objective);
/// Throws Error{bad_input} with all names.
[[nodiscard]] Objective objective_of(std::string_view name);

/// The value of a cell that an objective is read from.
[[nodiscard]] std::string_view value_of(Objective objective);
/// True where these values tell it. \param values  LandscapeInfo::values
[[nodiscard]] bool tells(std::span<const std::string> values, Objective objective);
/// Why they do not: "its cells hold no acceptance"; empty where they do.
[[nodiscard]] std::string why_untold(std::span<const std::string> values, Objective objective);

/// An objective and the reason for it, one line.
struct ChosenObjective {
    Objective objective = Objective::loss;
    std::string why;
};
/// What a text is judged by unless a person says otherwise: the loss where it was given or is the teacher's. Of a text that the student
/// wrote the loss is least under the cache it was written with, however far the teacher is, so there it is KL.
/// \param config  of the run that wrote the text
/// \param values  of its landscape: without kl_nats it is the loss
[[nodiscard]] ChosenObjective default_objective(const RunConfig& config, std::span<const std::string> values);

/// How likely a draft is to get to each of its tokens: 1 for the first, then the product of the acceptance of those before it. A pass
/// over n drafted tokens lets out the kept ones and, where one is rejected, the teacher's in its place, so their sum is the expected number,
/// sum_{l=0}^{n-1} prod_{i<=l} a_i; with one a for all (1 - a^n) / (1 - a).
/// Source: Leviathan et al. 2023, section 3.1 (there n - 1 tokens are drafted); docs/reference/refresh.md, Verification.
class DraftRun {
public:
    /// Chance of the next token, whose row accepts with `acceptance`. Not finite: it rejects.
    double next(double acceptance);

private:
    double m_chance = 1;
};

/// Costs of the cells along one row, from where it was entered.
class CellCosts {
public:
    /// The landscape has the objective's value                                                          (asserted)
    CellCosts(const Landscape& landscape, Objective objective);
    void enter(int64_t row); ///< a draft begins here
    /// The same; the next step that is asked for comes behind this one.
    void enter(int64_t row, int64_t behind);
    /// Of the row at this step; steps ascend by one. Infinite where loss or KL is not finite.
    [[nodiscard]] double next(int64_t step);

private:
    const Landscape& m_landscape;
    Objective m_objective;
    size_t m_value;
    int64_t m_row = 0;
    DraftRun m_draft;
};

/// The teacher's own loss under an objective: what no schedule can beat for long. 0 for kl and rejection, -1 for tokens_a_pass.
[[nodiscard]] double teacher_value(const Landscape& landscape, Objective objective);
/// Of the student without a refresh.
[[nodiscard]] double value_without_refresh(const Landscape& landscape, Objective objective);
/// A schedule's loss as a person reads it: itself; under tokens_a_pass what its k refreshes and the pass at the end let out, by their
/// number, -loss * (N - 1) / (k + 1).
[[nodiscard]] double shown_value(Objective objective, double loss, int64_t steps, int64_t refreshes);

} // namespace refreshlab
