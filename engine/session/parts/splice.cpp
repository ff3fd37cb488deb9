#include "engine/session/parts/splice.h"

#include "engine/base/check.h"
#include "engine/cache/dense_columns.h"
#include "engine/cache/kv_cache.h"
#include "engine/signals/registry.h"
#include "kernels/ops/column_distance.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace refreshlab {

namespace {

std::vector<float> to_floats(const at::Tensor& tensor) {
    const at::Tensor dense = tensor.contiguous();
    const float* data = dense.const_data_ptr<float>();
    return {data, data + dense.numel()};
}

/// No drift where no KV head of the layer holds the position.
void forget_missing(DriftMap& map, const at::Tensor& held) {
    const at::Tensor dense = held.contiguous();
    const bool* here = dense.const_data_ptr<bool>();
    for (size_t i = 0; i < map.k.size(); ++i) {
        if (here[i]) continue;
        for (auto* of : {&map.k, &map.v, &map.k_max, &map.v_max})
            (*of)[i] = absent();
    }
}

/// Of a student that does not hold every position: what it lacks is 0 in both versions.
/// \param held  gets [layers, positions]: by some KV head
ColumnDistances held_distances(const KvCache& student, const KvCache& teacher, Delta delta,
                               at::Tensor& held) {
    const int64_t n = delta.size();
    const KvCache::Columns columns = student.held_columns(delta.first, n);
    const at::Tensor missing = columns.held.logical_not().unsqueeze(-1);
    held = columns.held.any(1).cpu();
    const auto distance = [&](const at::Tensor& own, const at::Tensor& teachers) {
        return kernels::column_distance(own, teachers.to(student.device()).masked_fill(missing, 0));
    };
    return {distance(columns.k, teacher.keys(delta.first, n)),
            distance(columns.v, teacher.values(delta.first, n))};
}

} // namespace

DeltaDrift measure_drift(const KvCache& student, const KvCache& teacher, Delta delta) {
    const int64_t n = delta.size();
    at::Tensor held; // undefined: everything
    const auto [k, v] = student.layout() == CacheLayout::dense
                            ? student.distances(teacher, delta.first, n)
                            : held_distances(student, teacher, delta, held);
    DeltaDrift drift;
    drift.map = std::make_shared<DriftMap>();
    drift.map->first_pos = delta.first;
    drift.map->positions = n;
    drift.map->layers = k.relative.size(0);
    drift.map->k = to_floats(k.relative);
    drift.map->v = to_floats(v.relative);
    drift.map->k_max = to_floats(k.max_abs);
    drift.map->v_max = to_floats(v.max_abs);
    if (held.defined()) forget_missing(*drift.map, held);
    for (int64_t i = 0; i < n; ++i) {
        double sum = 0;
        int64_t layers = 0; // that hold it
        for (int64_t layer = 0; layer < drift.map->layers; ++layer) {
            if (is_absent(drift.map->k[static_cast<size_t>(layer * n + i)])) continue;
            ++layers;
            const auto at_cell = static_cast<size_t>(layer * n + i);
            sum += static_cast<double>(drift.map->k[at_cell]) + static_cast<double>(drift.map->v[at_cell]);
        }
        drift.mean.push_back(layers > 0 ? sum / (2.0 * static_cast<double>(layers))
                                        : static_cast<double>(absent()));
    }
    return drift;
}

int64_t splice_newest(KvCache& student, const KvCache& teacher, Delta delta, int64_t count, int32_t refresh,
                      int64_t step) {
    RL_ASSERT(count >= 0 && count <= delta.size());
    int64_t bytes = 0;
    if (count > 0) bytes = student.splice(teacher, delta.end - count, count, refresh, step);
    if (count < delta.size()) student.mark_skipped(delta.first, delta.size() - count, refresh, step);
    return bytes;
}

std::vector<int64_t> scope_positions(const RefreshScope& scope, Delta stretch, const DriftMap& drift,
                                     std::span<const float> attention, int64_t kv_heads) {
    std::vector<int64_t> positions(static_cast<size_t>(stretch.size()));
    std::iota(positions.begin(), positions.end(), stretch.first);
    if (scope.positions == ScopePositions::all) return positions;
    const auto count = std::min<size_t>(static_cast<size_t>(scope.count), positions.size());
    if (scope.positions == ScopePositions::newest)
        return {positions.end() - static_cast<int64_t>(count), positions.end()};

    std::vector<int64_t> layers; // in scope
    for (int64_t layer = 0; layer < drift.layers; ++layer) {
        bool any = false;
        for (int64_t head = 0; head < kv_heads; ++head)
            any |= scope.has(layer, head);
        if (any) layers.push_back(layer);
    }
    const bool keys = scope.parts != ScopeParts::values, values = scope.parts != ScopeParts::keys;
    std::vector<std::pair<double, int64_t>> scored; // -score, position: sorted, the best come first
    for (const int64_t position : positions) {
        const auto at = static_cast<size_t>(position - drift.first_pos);
        double sum = 0;
        int64_t held = 0;
        for (const int64_t layer : layers) {
            const size_t cell = static_cast<size_t>(layer * drift.positions) + at;
            if (is_absent(drift.k[cell])) continue;
            ++held;
            sum += (keys ? static_cast<double>(drift.k[cell]) : 0) +
                   (values ? static_cast<double>(drift.v[cell]) : 0);
        }
        if (held == 0) continue;
        double score = scope.positions == ScopePositions::attention ? 1 : sum / static_cast<double>(held);
        if (scope.positions != ScopePositions::drift)
            score *= at < attention.size() ? static_cast<double>(attention[at]) : 0;
        scored.emplace_back(std::isnan(score) ? 0 : -score, position);
    }
    std::ranges::sort(scored);
    scored.resize(std::min(count, scored.size()));
    positions.clear();
    for (const auto& [score, position] : scored)
        positions.push_back(position);
    std::ranges::sort(positions);
    return positions;
}

int64_t splice_scope(KvCache& student, const KvCache& teacher, Delta delta, const EntrySelection& selection,
                     int32_t refresh, int64_t step) {
    const int64_t bytes = student.splice(teacher, selection, refresh, step);
    auto chosen = selection.positions.begin();
    for (int64_t first = delta.first; first < delta.end;) { // stretches between those that were chosen
        const int64_t end = chosen == selection.positions.end() ? delta.end : *chosen;
        student.mark_skipped(first, end - first, refresh, step);
        first = end + 1;
        if (chosen != selection.positions.end()) ++chosen;
    }
    return bytes;
}

void rebuild_columns(const Forward& student, KvCache& cache, int64_t first_pos,
                     std::span<const int32_t> tokens, int32_t refresh) {
    RL_ASSERT(first_pos + static_cast<int64_t>(tokens.size()) == cache.length());
    {
        const KvCache::Quiet quiet(cache);
        cache.truncate(first_pos);
        StepInputs in;
        in.tokens = tokens;
        in.origin = Origin::student;
        in.rows = Rows::none;
        static_cast<void>(student.prefill(cache, in));
    }
    cache.mark_rebuilt(first_pos, refresh);
}

} // namespace refreshlab
