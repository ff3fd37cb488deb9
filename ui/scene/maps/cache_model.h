#pragma once

#include "engine/control/engine_link.h"
#include "ui/scene/maps/cache_map.h"
#include "ui/scene/maps/cache_view.h"

#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// What is known of a cache at one boundary. A later step of the same recording costs only what is new. Drift is
/// computed again only when a map has arrived or another quantity is chosen.
class CacheModel {
public:
    void clear(); ///< before another recording is shown
    void update(const Recording& recording, int64_t step);
    void show(DriftQuantity quantity); ///< nothing happens while it stays the same

    [[nodiscard]] const CacheColumns& columns() const { return m_columns; }
    [[nodiscard]] const CacheState& cache() const { return m_cache; } ///< of the decoding model
    [[nodiscard]] const DriftColumns& drift() const { return m_drift; }
    [[nodiscard]] const std::vector<float>& ages() const { return m_ages; } ///< [length], steps
    [[nodiscard]] DriftQuantity quantity() const { return m_quantity; }
    [[nodiscard]] int64_t teacher_length() const {
        return m_teacher.length();
    } ///< positions that its cache holds
    /// The chosen quantity, [layers, drift().stride]; not measured is absent().
    [[nodiscard]] const std::vector<float>& shown();
    [[nodiscard]] double shown_top(); ///< largest finite one of shown(); 0 without any
    [[nodiscard]] uint64_t revision() const { return m_revision; } ///< changes with whatever is shown
    [[nodiscard]] uint64_t beginnings() const {
        return m_beginnings;
    } ///< changes with a cache() that does not go on
    [[nodiscard]] uint64_t drift_revision() const { return m_drift_revision; } ///< with shown() alone

private:
    [[nodiscard]] float drift_at(size_t index) const;
    void make_shown();

    const Recording* m_recording = nullptr; ///< compared only
    DriftQuantity m_quantity = DriftQuantity::mean;
    CacheState m_cache, m_teacher; ///< of the decoding model and of the teacher
    CacheColumns m_columns;
    DriftColumns m_drift;
    int64_t m_step = -1;
    size_t m_entries = 0, m_drifts = 0;
    std::vector<float> m_ages, m_shown;
    double m_shown_top = 0;
    uint64_t m_revision = 0, m_drift_revision = 0, m_beginnings = 0;
    uint64_t m_shown_revision = UINT64_MAX; ///< of m_drift_revision that m_shown was made for
};

/// Where columns share a texel: the rarest origin of each block of `factor` columns, so that nothing vanishes.
[[nodiscard]] std::vector<Origin> reduce_origins(const std::vector<Origin>& origins, int64_t factor);

/// Why there is no drift map.
/// \param live  the shown recording is the engine's
[[nodiscard]] std::string no_drift_text(const Recording& recording, bool live);

/// What is known of one column, lines of a tooltip: token, step, origin, age.
[[nodiscard]] std::string column_text(const Recording& recording, const CacheColumns& columns,
                                      int64_t position);
/// The drift of one column in one layer, lines of the same tooltip.
[[nodiscard]] std::string drift_text(const DriftColumns& drift, int64_t layer, int64_t position);

/// Bytes of a model's columns.
struct CacheBytes {
    int64_t student = 0, teacher = 0; ///< in use; 0 = not held, or not known
};
/// \param status  knows the models' geometry, when they are loaded
/// \param length  columns of the decoding model's cache
/// \param teacher_length  of the teacher's
[[nodiscard]] CacheBytes cache_bytes(const Recording& recording, const EngineStatus& status, int64_t length,
                                     int64_t teacher_length);

} // namespace refreshlab::ui
