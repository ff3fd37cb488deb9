#include "ui/scene/maps/cache_map.h"

#include <algorithm>
#include <bit>
#include <utility>

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
    case Origin::teacher_keys:
        return "keys refreshed";
    case Origin::teacher_values:
        return "values refreshed";
    case Origin::teacher_partly:
        return "partly refreshed";
    }
    return "empty";
}

void copy_columns(const CacheState& state, int64_t prompt_length, CacheColumns& out) {
    const CacheState::Plane& plane = state.plane(0, 0);
    out.step = state.step();
    out.prompt_length = prompt_length;
    out.origin = state.origins();
    out.refresh = plane.refresh;
    out.written_at.assign(plane.written_at.begin(), plane.written_at.end());
}

CacheColumns cache_columns(const Recording& recording, int64_t step) {
    CacheColumns columns;
    copy_columns(cache_state(recording, step, recording.info().config.mode == Mode::teacher),
                 recording.prompt_length(), columns);
    return columns;
}

int64_t teacher_length(const Recording& recording, int64_t step) {
    return cache_state(recording, step, true).length();
}

DriftColumns drift_columns(const Recording& recording, int64_t step, int64_t length) {
    DriftColumns drift;
    drift.advance(recording, step, length);
    return drift;
}

void DriftColumns::make_room(int64_t length) {
    if (length <= stride) return;
    const auto wide = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(length)));
    for (auto* values : {&k, &v, &k_max, &v_max}) {
        std::vector<float> moved(static_cast<size_t>(layers * wide), absent());
        for (int64_t layer = 0; layer < layers; ++layer)
            std::copy_n(values->begin() + layer * stride, stride, moved.begin() + layer * wide);
        *values = std::move(moved);
    }
    stride = wide;
}

bool DriftColumns::advance(const Recording& recording, int64_t step, int64_t length) {
    const auto& log = recording.drifts();
    // Later maps lie over earlier ones, so what has come late makes all of them again.
    if (const uint64_t fills = recording.drift_fills(); fills != m_fills) {
        if (lacks) *this = {};
        m_fills = fills;
    }
    const int64_t before = stride;
    if (layers > 0) make_room(length);
    bool changed = stride != before;
    for (const size_t n = log.size(); maps < n && log[maps]->step <= step; ++maps) {
        const auto drift = recording.drift(maps);
        const DriftMap& map = *drift;
        lacks = lacks || !map.has_values();
        changed = true;
        if (layers == 0) {
            layers = map.layers;
            make_room(std::max<int64_t>(length, 1));
        }
        const int64_t first = std::max<int64_t>(0, map.first_pos),
                      last = std::min(length, map.first_pos + map.positions);
        for (int64_t layer = 0; layer < std::min(map.layers, layers); ++layer) {
            for (int64_t p = first; p < last; ++p) {
                const auto from = static_cast<size_t>(layer * map.positions + p - map.first_pos);
                const size_t to = index(layer, p);
                const auto take = [&](const std::vector<float>& source, std::vector<float>& target) {
                    if (from < source.size()) target[to] = source[from];
                };
                take(map.k, k);
                take(map.v, v);
                take(map.k_max, k_max);
                take(map.v_max, v_max);
            }
        }
    }
    return changed;
}

} // namespace refreshlab::ui
