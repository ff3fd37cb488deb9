#include "ui/scene/maps/cache_map.h"

#include "engine/record/recording/cache_state.h"

#include <algorithm>

namespace refreshlab::ui {

const char* origin_label(Origin origin) {
    switch (origin) {
    case Origin::none:
        return "empty";
    case Origin::teacher_prefill:
        return "teacher prefill";
    case Origin::teacher_refresh:
        return "refreshed";
    case Origin::student:
        return "student";
    case Origin::student_prefill:
        return "student prefill";
    case Origin::teacher_decode:
        return "teacher";
    case Origin::skipped:
        return "skipped";
    }
    return "empty";
}

CacheColumns cache_columns(const Recording& recording, int64_t step) {
    const CacheState state = cache_state(recording, step, recording.info().config.mode == Mode::teacher);
    const CacheState::Plane& plane = state.plane(0, 0);
    CacheColumns columns;
    columns.step = state.step();
    columns.prompt_length = recording.prompt_length();
    columns.origin = plane.origin;
    columns.refresh = plane.refresh;
    columns.written_at.assign(plane.written_at.begin(), plane.written_at.end());
    return columns;
}

int64_t teacher_length(const Recording& recording, int64_t step) {
    return cache_state(recording, step, true).length();
}

DriftColumns drift_columns(const Recording& recording, int64_t step, int64_t length) {
    DriftColumns drift;
    drift.length = length;
    const auto& maps = recording.drifts();
    for (size_t i = 0, n = maps.size(); i < n; ++i) {
        const DriftMap& map = *maps[i];
        if (map.step > step) break;
        if (drift.layers == 0) {
            drift.layers = map.layers;
            for (auto* values : {&drift.k, &drift.v, &drift.k_max, &drift.v_max})
                values->assign(static_cast<size_t>(drift.layers * length), absent());
        }
        const int64_t layers = std::min(map.layers, drift.layers);
        const int64_t first = std::max<int64_t>(0, map.first_pos),
                      last = std::min(length, map.first_pos + map.positions);
        for (int64_t layer = 0; layer < layers; ++layer) {
            for (int64_t p = first; p < last; ++p) {
                const auto from = static_cast<size_t>(layer * map.positions + p - map.first_pos);
                const size_t to = drift.index(layer, p);
                const auto take = [&](const std::vector<float>& source, std::vector<float>& target) {
                    if (from < source.size()) target[to] = source[from];
                };
                take(map.k, drift.k);
                take(map.v, drift.v);
                take(map.k_max, drift.k_max);
                take(map.v_max, drift.v_max);
            }
        }
    }
    return drift;
}

} // namespace refreshlab::ui
