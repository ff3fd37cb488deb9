#include "ui/scene/landscape/objective_words.h"

#include "ui/base/value_format.h"
#include "ui/scene/landscape/cell_values.h"

#include <fmt/format.h>

#include <array>

namespace refreshlab::ui {

namespace {

struct Words {
    std::string_view told_unit, told_label, told_tip, brief, loss_column, above_column;
};
constexpr std::array<Words, std::size(objectives)> table{{
    {"nats above the teacher", "above teacher", "Mean loss over the text, nats a token, less the teacher's",
     "above (nats)", "loss_nats", "loss_above_teacher_nats"},
    {"nats of KL", "KL (nats)", "Mean KL(teacher || student) over the text, nats a token", "KL (nats)",
     "kl_nats", "kl_above_teacher_nats"},
    {"rejected", "rejected", "Mean chance that the teacher rejects a token that the student draws",
     "rejected", "rejection", "rejection_above_teacher"},
    {"tokens a pass", "tokens a pass",
     "Expected tokens for each teacher pass: those that judge a draft, and the pass at the end of the text",
     "lost", "tokens_a_pass", "lost_of_drafts"},
}};

const Words& row_of(Objective objective) {
    return table[static_cast<size_t>(objective)];
}

} // namespace

ChosenObjective shown_objective(const LandscapeView& view, const ChosenObjective& usual,
                                std::span<const std::string> values) {
    if (!view.objective) return usual;
    if (const std::string why = why_untold(values, *view.objective); !why.empty())
        return {usual.objective, fmt::format("not by {}: {}", to_string(*view.objective), why)};
    return {*view.objective, "chosen"};
}

double told_value(Objective objective, double teacher, double loss, int64_t steps, int64_t refreshes) {
    return objective == Objective::tokens_a_pass ? shown_value(objective, loss, steps, refreshes)
                                                 : loss - teacher;
}

std::string told_number(Objective objective, double told) {
    return objective == Objective::loss            ? fmt::format("{:+.3f}", told)
           : objective == Objective::tokens_a_pass ? fmt::format("{:.2f}", told)
                                                   : fmt::format("{:.3f}", told);
}

std::string_view told_unit(Objective objective) {
    return row_of(objective).told_unit;
}
std::string_view told_label(Objective objective) {
    return row_of(objective).told_label;
}
std::string_view told_tip(Objective objective) {
    return row_of(objective).told_tip;
}

std::string draft_words(std::span<const ExpectedDraft> drafts) {
    if (drafts.empty()) return {};
    const DraftMeans means = means_of(drafts);
    return fmt::format("{:.1f} of {:.1f} drafted tokens expected to stay", means.expected, means.tokens);
}

std::string axis_label(Objective objective, bool brief) {
    if (brief) return std::string(row_of(objective).brief);
    if (objective == Objective::tokens_a_pass) return "Drafted tokens that are lost (of 1)";
    const CellValue cells{CellValue::Kind::above_teacher, {}, objective};
    return with_unit(label_of(cells), unit_of(cells));
}

std::string_view loss_column(Objective objective) {
    return row_of(objective).loss_column;
}
std::string_view above_column(Objective objective) {
    return row_of(objective).above_column;
}

} // namespace refreshlab::ui
