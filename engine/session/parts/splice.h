#pragma once

#include "engine/model/forward.h"
#include "engine/record/recording/step_record.h"
#include "engine/refresh/scope.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace refreshlab {

class KvCache;

/// Positions [first, end) that the student wrote since the last splice.
struct Delta {
    int64_t first = 0, end = 0;
    [[nodiscard]] int64_t size() const { return end - first; }
};

/// Drift of a delta: [layers, positions], K and V apart, and its mean over the layers at each position
/// (reference/refresh.md, 6.2). To be called before the splice: only then do both versions of every column exist.
struct DeltaDrift {
    std::shared_ptr<DriftMap> map; ///< step and refresh id are the caller's to fill in
    std::vector<double> mean;      ///< [positions]: (eK + eV) / 2, mean over the layers that hold it
};
/// Over the entries that the student holds; absent() where it holds none (signals/registry.h).
/// One KV geometry, positions in both caches                                                             (asserted)
[[nodiscard]] DeltaDrift measure_drift(const KvCache& student, const KvCache& teacher, Delta delta);

/// Copies the newest `count` columns of delta from the teacher and marks the rest as passed over. Journalled. \return bytes of these columns
int64_t splice_newest(KvCache& student, const KvCache& teacher, Delta delta, int64_t count, int32_t refresh,
                      int64_t step);

/// Which positions of `stretch` a scope writes, ascending: all, or RefreshScope::count by their score. Drift is that of the parts in scope,
/// the mean over the layers in scope that hold the position; attention is what `attention` says. A position that no such layer holds is not
/// written. Of equal scores the older position comes first.
/// \param drift      of a delta that holds the stretch
/// \param attention  of position delta.first + i, delta as of `drift`; what it lacks is 0
/// \param kv_heads   of the model
[[nodiscard]] std::vector<int64_t> scope_positions(const RefreshScope& scope, Delta stretch,
                                                   const DriftMap& drift, std::span<const float> attention,
                                                   int64_t kv_heads);

/// Copies these positions of delta from the teacher, in the layers, KV heads and parts of the scope, and marks the other positions as passed over.
/// Journalled. \return bytes that were written
int64_t splice_scope(KvCache& student, const KvCache& teacher, Delta delta, const EntrySelection& selection,
                     int32_t refresh, int64_t step);

/// Rebuild mode: the geometries differ, so nothing can be copied. The student's columns from `first_pos` on are computed
/// again from their tokens, which for an exact cache reproduces them (reference/refresh.md, section 4). The cache tells
/// this as one change.
void rebuild_columns(const Forward& student, KvCache& cache, int64_t first_pos,
                     std::span<const int32_t> tokens, int32_t refresh);

} // namespace refreshlab
