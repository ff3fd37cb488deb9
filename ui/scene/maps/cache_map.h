#pragma once

#include "engine/base/origin.h"
#include "engine/record/recording/cache_state.h"
#include "engine/record/recording/recording.h"

#include <array>
#include <cstdint>
#include <vector>

namespace refreshlab::ui {

/// The decoding model's cache as it stood after boundary `step`, computed from the recording's cache events (layer 0,
/// KV head 0). So it works while scrubbing, for rewound runs and for files. No ImGui in here.
struct CacheColumns {
    int64_t step = 0, prompt_length = 0;
    std::vector<Origin> origin;      ///< [length], by position
    std::vector<int32_t> refresh;    ///< id of the refresh that wrote or skipped the column, -1 = none
    std::vector<int64_t> written_at; ///< step that wrote it; 0 = the prefill
    [[nodiscard]] int64_t length() const { return static_cast<int64_t>(origin.size()); }
    /// Steps since the column was written.
    [[nodiscard]] int64_t age(int64_t position) const {
        return step - written_at[static_cast<size_t>(position)];
    }
};

/// Of layer 0, KV head 0. \param out  keeps its memory
void copy_columns(const CacheState& state, int64_t prompt_length, CacheColumns& out);
/// \param step  0 .. recording.steps(): 0 is the state after the prefill
[[nodiscard]] CacheColumns cache_columns(const Recording& recording, int64_t step);

/// The latest drift of each layer and position among refreshes at or before `step`; absent() where nothing measured it.
struct DriftColumns {
    int64_t layers = 0;                    ///< 0: nothing was measured
    int64_t stride = 0;                    ///< positions that there is room for
    std::vector<float> k, v, k_max, v_max; ///< [layers, stride]
    size_t maps = 0;                       ///< of the recording that are in here
    bool lacks = false;                    ///< the values of some of them have not come
    [[nodiscard]] size_t index(int64_t layer, int64_t position) const {
        return static_cast<size_t>(layer * stride + position);
    }
    /// Takes in what was measured up to a later step. Cost: the new maps; a longer cache moves all values each time that its
    /// length has doubled.
    /// \param length  of the cache
    /// \return whether a value has changed or moved
    bool advance(const Recording& recording, int64_t step, int64_t length);

private:
    void make_room(int64_t length);
    uint64_t m_fills = 0; ///< of the recording, when it was looked at
};
[[nodiscard]] DriftColumns drift_columns(const Recording& recording, int64_t step, int64_t length);

/// Positions that the teacher's own cache holds after boundary `step`: the prompt, and what its passes have read.
[[nodiscard]] int64_t teacher_length(const Recording& recording, int64_t step);

/// Words of the legend: "teacher prefill", "refreshed", "student", "skipped", ...
[[nodiscard]] const char* origin_label(Origin origin);
/// The origins that a legend may name, in its order.
inline constexpr std::array legend_origins = {
    Origin::teacher_prefill, Origin::student_prefill, Origin::teacher_refresh,
    Origin::teacher_keys,    Origin::teacher_values,  Origin::teacher_partly,
    Origin::student,         Origin::teacher_decode,  Origin::skipped};

} // namespace refreshlab::ui
