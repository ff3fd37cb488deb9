#include "ui/scene/maps/cache_map.h"

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
    const RunInfo& info = recording.info();
    const Mode mode = info.config.mode;
    // Models of different geometry: nothing can be copied, the student computes the columns again itself.
    const bool rebuild = mode == Mode::overfill && info.note.starts_with("rebuild mode");
    const int64_t prompt = recording.prompt_length();
    step = std::clamp<int64_t>(step, 0, recording.steps());
    // The last record of a finished run holds y_N, which is never fed and has no column.
    const int64_t fed = step > 0 && !recording.step(step).fed ? step - 1 : step;

    CacheColumns columns;
    columns.step = step;
    columns.prompt_length = prompt;
    const auto length = static_cast<size_t>(prompt + fed);
    columns.origin.assign(length, mode == Mode::teacher ? Origin::teacher_decode : Origin::student);
    std::fill_n(columns.origin.begin(), prompt,
                mode == Mode::student || rebuild ? Origin::student_prefill : Origin::teacher_prefill);
    columns.refresh.assign(length, -1);
    columns.written_at.resize(length);
    for (size_t p = 0; p < length; ++p)
        columns.written_at[p] =
            std::max<int64_t>(0, static_cast<int64_t>(p) - prompt + 1); // y_t sits at L + t - 1

    const auto& refreshes = recording.refreshes();
    for (size_t i = 0, n = refreshes.size(); i < n; ++i) {
        const RefreshEvent& event = refreshes[i];
        if (event.step > step) break;
        // Delta ends with the column fed at the boundary that fired; a window splices its newest part and passes over the rest.
        const auto end = std::min<int64_t>(event.first_pos + event.spliced, columns.length());
        const int64_t begin = std::max(prompt, event.first_pos + event.spliced - event.delta);
        for (int64_t p = begin; p < end; ++p) {
            const auto at = static_cast<size_t>(p);
            columns.refresh[at] = event.id;
            if (p < event.first_pos) {
                columns.origin[at] = Origin::skipped;
                continue;
            }
            columns.written_at[at] = event.step;
            if (!rebuild) columns.origin[at] = Origin::teacher_refresh;
        }
    }
    return columns;
}

int64_t teacher_length(const Recording& recording, int64_t step) {
    int64_t length = recording.prompt_length();
    if (recording.info().config.mode == Mode::student) return 0;
    const auto& passes = recording.passes();
    for (size_t i = 0, n = passes.size(); i < n && passes[i].step <= step; ++i)
        length = std::max(length, passes[i].first_pos + passes[i].tokens);
    const auto& refreshes = recording.refreshes(); // what was spliced had been read
    for (size_t i = 0, n = refreshes.size(); i < n && refreshes[i].step <= step; ++i)
        length = std::max(length, refreshes[i].first_pos + refreshes[i].spliced);
    return length;
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
