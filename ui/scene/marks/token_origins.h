#pragma once

#include "engine/base/origin.h"
#include "engine/record/recording/recording.h"

#include <cstdint>
#include <vector>

namespace refreshlab::ui {

/// Who had written the cache entries of generated tokens at one step, told from the recorded cache events (layer 0, KV head
/// 0): the decoding model, then the teacher where a splice reached, or nobody else for good where a windowed splice moved past.
/// Cost of update(): O(cache events and positions up to the step) where step or recording changed.
class TokenOrigins {
public:
    void reset();
    /// State behind boundary `step`. Nothing happens while recording and step stay the same.
    void update(const Recording& recording, int64_t step);
    /// Of token y_t; none for tokens that are not fed yet.
    [[nodiscard]] Origin of(int64_t token) const;

private:
    const Recording* m_recording = nullptr; ///< compared only, never read later
    int64_t m_step = -1, m_prompt_length = 0;
    size_t m_entries = 0;
    std::vector<Origin> m_origins; ///< by position
};

} // namespace refreshlab::ui
