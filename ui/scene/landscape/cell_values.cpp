#include "ui/scene/landscape/cell_values.h"

#include "engine/record/recording/step_record.h"
#include "engine/signals/registry.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace refreshlab::ui {

namespace {

/// Stand-ins of rows that were not computed.
std::vector<int64_t> shown_rows(const Landscape& landscape) {
    const std::vector<int64_t> rows = landscape.rows();
    int64_t apart = coarsest_stride(landscape.num_rows());
    for (size_t i = 1; i < rows.size(); ++i)
        apart = std::max(apart, rows[i] - rows[i - 1]);
    std::vector<int64_t> shown(static_cast<size_t>(landscape.num_rows()), -1);
    int64_t last = -1;
    for (int64_t j = 0; j < landscape.num_rows(); ++j) {
        if (landscape.has_row(j)) last = j;
        if (last >= 0 && j - last < apart) shown[static_cast<size_t>(j)] = last;
    }
    return shown;
}

/// Sum of a row's costs over the horizon behind boundary i. \param costs  by step
double sum_behind(const std::vector<double>& costs, int64_t i) {
    const int64_t end = std::min(std::ssize(costs) - 1, i + gain_horizon);
    double sum = 0;
    for (int64_t step = i + 1; step <= end; ++step)
        sum += costs[static_cast<size_t>(step)];
    return sum;
}

} // namespace

std::vector<CellValue> cell_values(const Landscape& landscape, Objective objective) {
    using Kind = CellValue::Kind;
    std::vector<CellValue> all{
        {Kind::above_teacher, {}, objective}, {Kind::gain, {}, objective}, {Kind::loss, {}}};
    for (const std::string& name : landscape.info().values) {
        const bool is_cost = objective == Objective::kl && name == value_of(objective);
        if (name != "logprob" && !is_cost) all.push_back({Kind::signal, name});
    }
    return all;
}

std::string label_of(const CellValue& value) {
    switch (value.kind) {
    case CellValue::Kind::above_teacher:
        return value.objective == Objective::loss            ? "Loss above the teacher"
               : value.objective == Objective::tokens_a_pass ? "Chance that the draft has ended"
                                                             : std::string(label_of(value.objective));
    case CellValue::Kind::loss:
        return "Loss";
    case CellValue::Kind::gain:
        return "Gain of a refresh here";
    case CellValue::Kind::signal:
        break;
    }
    const auto id = signal_id(value.signal);
    return id ? std::string(signals()[*id].label) : value.signal;
}

std::string unit_of(const CellValue& value) {
    switch (value.kind) {
    case CellValue::Kind::above_teacher:
        return value.objective == Objective::tokens_a_pass ? "of 1" : std::string(unit_of(value.objective));
    case CellValue::Kind::loss:
        return "nats";
    case CellValue::Kind::gain: // a sum over steps
        return value.objective == Objective::rejection ? "rejections" : std::string(unit_of(value.objective));
    case CellValue::Kind::signal:
        break;
    }
    const auto id = signal_id(value.signal);
    return id ? std::string(signals()[*id].unit) : std::string();
}

bool is_signed(const CellValue& value) {
    return value.kind == CellValue::Kind::gain ||
           (value.kind == CellValue::Kind::above_teacher && value.objective == Objective::loss);
}

CellRows::CellRows(std::shared_ptr<const Landscape> landscape, CellValue value)
    : m_landscape(std::move(landscape))
    , m_value(std::move(value))
    , m_shown(shown_rows(*m_landscape)) {
    if (m_value.kind == CellValue::Kind::signal)
        m_plane = m_landscape->value_index(m_value.signal).value_or(0);
    if (m_value.kind != CellValue::Kind::gain) return;
    m_after_refresh.assign(static_cast<size_t>(size()), std::numeric_limits<double>::quiet_NaN());
    for (const int64_t j : m_landscape->rows())
        m_after_refresh[static_cast<size_t>(j)] = sum_behind(costs_of(j), j);
}

std::vector<double> CellRows::costs_of(int64_t row) const {
    std::vector<double> costs(static_cast<size_t>(m_landscape->num_steps()) + 1, 0);
    CellCosts cells(*m_landscape, m_value.objective);
    cells.enter(row);
    for (int64_t step = row + 1; step <= m_landscape->num_steps(); ++step)
        costs[static_cast<size_t>(step)] = cells.next(step);
    return costs;
}

void CellRows::read(int64_t j, std::vector<float>& out) const {
    out.assign(static_cast<size_t>(size()), absent());
    const int64_t row = m_shown[static_cast<size_t>(j)];
    if (row < 0) return;
    switch (m_value.kind) {
    case CellValue::Kind::gain:
        return read_gain(j, row, out);
    case CellValue::Kind::above_teacher:
        return read_costs(j, row, out);
    case CellValue::Kind::loss:
        for (int64_t c = j; c < size(); ++c)
            out[static_cast<size_t>(c)] = static_cast<float>(m_landscape->loss(row, c + 1));
        return;
    case CellValue::Kind::signal: {
        const auto cells = m_landscape->plane(m_plane, row);
        std::copy(cells.begin() + (j - row), cells.end(), out.begin() + j);
    }
    }
}

/// The teacher's own cost is a number of the token under the loss, and one for all under the others.
void CellRows::read_costs(int64_t j, int64_t row, std::vector<float>& out) const {
    const bool of_token = m_value.objective == Objective::loss;
    const double all = of_token ? 0 : teacher_value(*m_landscape, m_value.objective);
    CellCosts cells(*m_landscape, m_value.objective);
    cells.enter(row, j);
    for (int64_t c = j; c < size(); ++c) {
        const double cost = cells.next(c + 1);
        out[static_cast<size_t>(c)] =
            static_cast<float>(cost - (of_token ? m_landscape->teacher_loss(c + 1) : all));
    }
}

/// A refresh at step c + 1 leads from this row into row c + 1: absent where that was not computed, and after the last step.
void CellRows::read_gain(int64_t j, int64_t row, std::vector<float>& out) const {
    const std::vector<double> costs = costs_of(row);
    double here = sum_behind(costs, j + 1); // of the steps j + 2 .. j + 1 + horizon
    for (int64_t c = j; c + 1 < size(); ++c) {
        const int64_t i = c + 1; // the boundary
        const double there = m_after_refresh[static_cast<size_t>(i)];
        if (!std::isnan(there)) out[static_cast<size_t>(c)] = static_cast<float>(here - there);
        here -= costs[static_cast<size_t>(i + 1)];
        if (const int64_t next = i + 1 + gain_horizon; next < std::ssize(costs))
            here += costs[static_cast<size_t>(next)];
        if (!std::isfinite(here)) here = sum_behind(costs, i + 1);
    }
}

} // namespace refreshlab::ui
