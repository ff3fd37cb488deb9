#include "engine/landscape/objective.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/control/run_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace refreshlab {

namespace {

struct Row {
    std::string_view name, label, unit, value;
};
constexpr std::array<Row, std::size(objectives)> table{{
    {"loss", "loss of the given token", "nats", "logprob"},
    {"kl", "KL(teacher || student)", "nats", "kl_nats"},
    {"rejection", "1 - acceptance", "of 1", "acceptance"},
    {"tokens_a_pass", "expected tokens a teacher pass", "tokens", "acceptance"},
}};

const Row& row_of(Objective objective) {
    return table[static_cast<size_t>(objective)];
}

} // namespace

std::string_view to_string(Objective objective) {
    return row_of(objective).name;
}
std::string_view unit_of(Objective objective) {
    return row_of(objective).unit;
}
std::string_view label_of(Objective objective) {
    return row_of(objective).label;
}
std::string_view value_of(Objective objective) {
    return row_of(objective).value;
}

Objective objective_of(std::string_view name) {
    const auto found = std::ranges::find(table, name, &Row::name);
    if (found != table.end()) return objectives[static_cast<size_t>(found - table.begin())];
    std::array<std::string_view, table.size()> names;
    std::ranges::transform(table, names.begin(), &Row::name);
    throw Error("the objective of a landscape", std::string(name), "is not known",
                fmt::format("one of: {}", fmt::join(names, ", ")));
}

bool tells(std::span<const std::string> values, Objective objective) {
    return std::ranges::find(values, value_of(objective)) != values.end();
}

std::string why_untold(std::span<const std::string> values, Objective objective) {
    return tells(values, objective) ? std::string()
                                    : fmt::format("its cells hold no {}", value_of(objective));
}

ChosenObjective default_objective(const RunConfig& config, std::span<const std::string> values) {
    if (!config.given_text.empty() || !config.given_ids.empty())
        return {Objective::loss, "the text is given"};
    if (config.mode == Mode::teacher) return {Objective::loss, "the teacher wrote the text"};
    if (!tells(values, Objective::kl))
        return {Objective::loss, "the student wrote the text, but the cells hold no kl_nats"};
    return {Objective::kl, "the student wrote the text, so its own tokens are likeliest without a refresh"};
}

double DraftRun::next(double acceptance) {
    return std::exchange(m_chance,
                         std::isfinite(acceptance) ? m_chance * std::clamp(acceptance, 0.0, 1.0) : 0.0);
}

CellCosts::CellCosts(const Landscape& landscape, Objective objective)
    : m_landscape(landscape)
    , m_objective(objective) {
    const auto value = landscape.value_index(value_of(objective));
    RL_ASSERT(value.has_value());
    m_value = *value;
}

void CellCosts::enter(int64_t row) {
    m_row = row;
    m_draft = {};
}

void CellCosts::enter(int64_t row, int64_t behind) {
    enter(row);
    if (m_objective != Objective::tokens_a_pass) return; // the others know no past
    for (int64_t step = row + 1; step <= behind; ++step)
        static_cast<void>(next(step));
}

double CellCosts::next(int64_t step) {
    if (m_objective == Objective::loss) return m_landscape.loss(m_row, step);
    const auto cell = static_cast<double>(m_landscape.cell(m_value, m_row, step));
    if (m_objective == Objective::tokens_a_pass) return -m_draft.next(cell);
    if (m_objective == Objective::rejection) return std::isfinite(cell) ? 1 - cell : 1;
    return std::isfinite(cell) ? cell : std::numeric_limits<double>::infinity();
}

double teacher_value(const Landscape& landscape, Objective objective) {
    if (objective == Objective::loss) return landscape.mean_teacher_loss();
    return objective == Objective::tokens_a_pass ? -1 : 0;
}

double value_without_refresh(const Landscape& landscape, Objective objective) {
    CellCosts costs(landscape, objective);
    double sum = 0;
    for (int64_t step = 1; step <= landscape.num_steps(); ++step)
        sum += costs.next(step);
    return sum / static_cast<double>(landscape.num_steps());
}

double shown_value(Objective objective, double loss, int64_t steps, int64_t refreshes) {
    if (objective != Objective::tokens_a_pass) return loss;
    return -loss * static_cast<double>(steps) / static_cast<double>(refreshes + 1);
}

} // namespace refreshlab
