#include "ui/scene/maps/cache_model.h"

#include "engine/signals/registry.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/scene/text/token_label.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {
namespace {

std::string drift_number(float value) {
    return is_absent(value) ? std::string("not measured") : format_number(static_cast<double>(value));
}

} // namespace

void CacheModel::clear() {
    m_recording = nullptr;
    m_cache = m_teacher = {};
    m_columns = {};
    m_drift = {};
    m_step = -1;
    ++m_revision;
    ++m_drift_revision;
    ++m_beginnings;
}

void CacheModel::update(const Recording& recording, int64_t step) {
    const size_t entries = recording.cache_entries().size(),
                 drifts = recording.drifts().size() + recording.drift_fills();
    if (m_recording != &recording || step < m_step) {
        clear();
        m_recording = &recording;
        m_cache = CacheState(recording, recording.info().config.mode == Mode::teacher);
        m_teacher = CacheState(recording, true);
    } else if (step == m_step && entries == m_entries && drifts == m_drifts) {
        return;
    }
    m_step = step;
    m_entries = entries;
    m_drifts = drifts;
    m_cache.advance(recording, step);
    m_teacher.advance(recording, step);
    copy_columns(m_cache, recording.prompt_length(), m_columns);
    if (m_drift.advance(recording, step, m_columns.length())) ++m_drift_revision;
    m_ages.resize(static_cast<size_t>(m_columns.length()));
    for (int64_t p = 0; p < m_columns.length(); ++p)
        m_ages[static_cast<size_t>(p)] = static_cast<float>(m_columns.age(p));
    ++m_revision;
}

void CacheModel::show(DriftQuantity quantity) {
    if (m_quantity == quantity) return;
    m_quantity = quantity;
    ++m_revision;
    ++m_drift_revision;
}

float CacheModel::drift_at(size_t index) const {
    switch (m_quantity) {
    case DriftQuantity::keys:
        return m_drift.k[index];
    case DriftQuantity::values:
        return m_drift.v[index];
    case DriftQuantity::keys_max:
        return m_drift.k_max[index];
    case DriftQuantity::values_max:
        return m_drift.v_max[index];
    case DriftQuantity::mean:
        break;
    }
    const float k = m_drift.k[index], v = m_drift.v[index];
    return is_absent(k) || is_absent(v) ? absent() : 0.5F * (k + v);
}

/// Every layer and position is looked at, so only when they are others.
void CacheModel::make_shown() {
    if (m_shown_revision == m_drift_revision) return;
    m_shown_revision = m_drift_revision;
    m_shown_top = 0;
    m_shown.resize(m_drift.k.size());
    for (size_t i = 0; i < m_shown.size(); ++i) {
        m_shown[i] = drift_at(i);
        if (std::isfinite(m_shown[i])) m_shown_top = std::max(m_shown_top, static_cast<double>(m_shown[i]));
    }
}

const std::vector<float>& CacheModel::shown() {
    make_shown();
    return m_shown;
}

double CacheModel::shown_top() {
    make_shown();
    return m_shown_top;
}

std::vector<Origin> reduce_origins(const std::vector<Origin>& origins, int64_t factor) {
    const auto rank = [](Origin o) {
        if (o >= Origin::teacher_keys) return 2; // in part the student's
        return o == Origin::skipped ? 4 : o == Origin::student ? 3 : o == Origin::teacher_refresh ? 1 : 0;
    };
    const auto length = static_cast<int64_t>(origins.size());
    std::vector<Origin> reduced;
    for (int64_t p = 0; p < length; p += factor)
        reduced.push_back(*std::max_element(origins.begin() + p,
                                            origins.begin() + std::min(length, p + factor),
                                            [&](Origin a, Origin b) { return rank(a) < rank(b); }));
    return reduced;
}

std::string no_drift_text(const Recording& recording, bool live) {
    const RunInfo& info = recording.info();
    if (info.config.mode != Mode::overfill) return "No drift: this run has one model only";
    if (info.rebuild) return "No drift: in rebuild mode nothing is copied from the teacher";
    return live && !recording.end() ? "Drift is measured at each refresh: press Refresh now"
                                    : "Drift is measured at each refresh, and there was none";
}

std::string column_text(const Recording& recording, const CacheColumns& columns, int64_t position) {
    const auto at = static_cast<size_t>(position);
    const int64_t step = position - recording.prompt_length() + 1;
    std::string text = fmt::format("Position {}, {}", position, position_label(recording, position));
    if (step >= 1) text += fmt::format(", step {}", step);
    text += fmt::format("\nOrigin: {}", origin_label(columns.origin[at]));
    if (columns.refresh[at] >= 0)
        text +=
            fmt::format(" ({} refresh {})", columns.origin[at] == Origin::skipped ? "passed over by" : "by",
                        columns.refresh[at] + 1);
    return text + fmt::format("\nWritten {} ago", format_count(columns.age(position), "step"));
}

std::string drift_text(const DriftColumns& drift, int64_t layer, int64_t position) {
    const size_t index = drift.index(layer, position);
    std::string text = fmt::format("\nLayer {}: drift K {}, V {}", layer, drift_number(drift.k[index]),
                                   drift_number(drift.v[index]));
    if (!is_absent(drift.k_max[index]))
        text += fmt::format("\nLargest difference K {}, V {}", drift_number(drift.k_max[index]),
                            drift_number(drift.v_max[index]));
    else if (drift.lacks)
        text += "\nSome drift maps have not come from the server yet";
    return text;
}

CacheBytes cache_bytes(const Recording& recording, const EngineStatus& status, int64_t length,
                       int64_t teacher_length) {
    const RunInfo& info = recording.info();
    const Mode mode = info.config.mode;
    const int64_t width = info.dtype == "f32" ? 4 : 2;
    const auto column = [&](const ModelSummary& model) {
        return model.name.empty() ? int64_t{0} : 2 * model.layers * model.kv_heads * model.head_dim * width;
    };
    CacheBytes bytes;
    if (mode != Mode::teacher) bytes.student = column(status.student) * length;
    if (mode != Mode::student)
        bytes.teacher = column(status.teacher) * (mode == Mode::teacher ? length : teacher_length);
    return bytes;
}

} // namespace refreshlab::ui
