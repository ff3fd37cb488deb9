#include "ui/scene/landscape/cell_values.h"

#include "engine/record/recording/step_record.h"
#include "engine/signals/registry.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

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

/// Sum of a row's losses over the horizon behind boundary i.
double loss_behind(const Landscape& landscape, int64_t row, int64_t i) {
    const int64_t end = std::min(landscape.num_steps(), i + gain_horizon);
    double sum = 0;
    for (int64_t step = i + 1; step <= end; ++step)
        sum += landscape.loss(row, step);
    return sum;
}

} // namespace

std::vector<CellValue> cell_values(const Landscape& landscape) {
    using Kind = CellValue::Kind;
    std::vector<CellValue> all{{Kind::loss_above_teacher, {}}, {Kind::gain, {}}, {Kind::loss, {}}};
    for (const std::string& name : landscape.info().values) {
        if (name != "logprob") all.push_back({Kind::signal, name});
    }
    return all;
}

std::string label_of(const CellValue& value) {
    switch (value.kind) {
    case CellValue::Kind::loss_above_teacher:
        return "Loss above the teacher";
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
    if (value.kind != CellValue::Kind::signal) return "nats";
    const auto id = signal_id(value.signal);
    return id ? std::string(signals()[*id].unit) : std::string();
}

bool is_signed(const CellValue& value) {
    return value.kind == CellValue::Kind::gain || value.kind == CellValue::Kind::loss_above_teacher;
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
        m_after_refresh[static_cast<size_t>(j)] = loss_behind(*m_landscape, j, j);
}

void CellRows::read(int64_t j, std::vector<float>& out) const {
    out.assign(static_cast<size_t>(size()), absent());
    const int64_t row = m_shown[static_cast<size_t>(j)];
    if (row < 0) return;
    if (m_value.kind == CellValue::Kind::gain) return read_gain(j, row, out);
    const bool signal = m_value.kind == CellValue::Kind::signal;
    const auto cells = m_landscape->plane(signal ? m_plane : 0, row);
    for (int64_t c = j; c < size(); ++c) {
        const float cell = cells[static_cast<size_t>(c - row)];
        float& value = out[static_cast<size_t>(c)];
        if (signal) {
            value = cell;
        } else {
            const double loss = m_landscape->loss(row, c + 1);
            value = static_cast<float>(
                m_value.kind == CellValue::Kind::loss ? loss : loss - m_landscape->teacher_loss(c + 1));
        }
    }
}

/// A refresh at step c + 1 leads from this row into row c + 1: absent where that was not computed, and after the last step.
void CellRows::read_gain(int64_t j, int64_t row, std::vector<float>& out) const {
    const Landscape& land = *m_landscape;
    double here = loss_behind(land, row, j + 1); // of the steps j + 2 .. j + 1 + horizon
    for (int64_t c = j; c + 1 < size(); ++c) {
        const int64_t i = c + 1; // the boundary
        const double there = m_after_refresh[static_cast<size_t>(i)];
        if (!std::isnan(there)) out[static_cast<size_t>(c)] = static_cast<float>(here - there);
        here -= land.loss(row, i + 1);
        if (i + 1 + gain_horizon <= land.num_steps()) here += land.loss(row, i + 1 + gain_horizon);
        if (!std::isfinite(here)) here = loss_behind(land, row, i + 1);
    }
}

} // namespace refreshlab::ui
