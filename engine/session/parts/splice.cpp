#include "engine/session/parts/splice.h"

#include "engine/base/check.h"
#include "engine/cache/kv_cache.h"
#include "kernels/ops/column_distance.h"

namespace refreshlab {

namespace {

std::vector<float> to_floats(const at::Tensor& tensor) {
    const at::Tensor dense = tensor.contiguous();
    const float* data = dense.const_data_ptr<float>();
    return {data, data + dense.numel()};
}

} // namespace

DeltaDrift measure_drift(const KvCache& student, const KvCache& teacher, Delta delta) {
    const int64_t n = delta.size();
    const at::Device device = student.device();
    const auto k =
        kernels::column_distance(student.keys(delta.first, n), teacher.keys(delta.first, n).to(device));
    const auto v =
        kernels::column_distance(student.values(delta.first, n), teacher.values(delta.first, n).to(device));
    DeltaDrift drift;
    drift.map = std::make_shared<DriftMap>();
    drift.map->first_pos = delta.first;
    drift.map->positions = n;
    drift.map->layers = k.relative.size(0);
    drift.map->k = to_floats(k.relative);
    drift.map->v = to_floats(v.relative);
    drift.map->k_max = to_floats(k.max_abs);
    drift.map->v_max = to_floats(v.max_abs);
    for (int64_t i = 0; i < n; ++i) {
        double sum = 0;
        for (int64_t layer = 0; layer < drift.map->layers; ++layer) {
            const auto at_cell = static_cast<size_t>(layer * n + i);
            sum += static_cast<double>(drift.map->k[at_cell]) + static_cast<double>(drift.map->v[at_cell]);
        }
        drift.mean.push_back(sum / (2.0 * static_cast<double>(drift.map->layers)));
    }
    return drift;
}

void splice_newest(KvCache& student, const KvCache& teacher, Delta delta, int64_t count, int32_t refresh,
                   int64_t step) {
    RL_ASSERT(count >= 0 && count <= delta.size());
    if (count > 0) student.splice(teacher, delta.end - count, count, refresh, step);
    if (count < delta.size()) student.mark_skipped(delta.first, delta.size() - count, refresh, step);
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
