#pragma once

#include "engine/base/origin.h"
#include "engine/record/recording/cache_state.h"
#include "engine/record/recording/recording.h"

#include <cstdint>

namespace refreshlab::ui {

/// Who had written the cache entries of generated tokens at one step, from the recorded cache events (layer 0, KV head
/// 0). First it is the decoding model. Where a splice reached, it is the teacher; where a windowed splice moved past,
/// it stays the decoding model for good.
/// Cost of update(): the cache events that are new; all of them after a step back or in another recording.
class TokenOrigins {
public:
    void reset(); ///< before another recording is shown
    /// The state after boundary `step`. Nothing happens while recording and step stay the same.
    void update(const Recording& recording, int64_t step);
    /// Of token y_t; none for tokens that are not fed yet.
    [[nodiscard]] Origin of(int64_t token) const;

private:
    const Recording* m_recording = nullptr; ///< compared only, never read later
    int64_t m_step = -1, m_prompt_length = 0;
    CacheState m_cache; ///< of the decoding model
};

} // namespace refreshlab::ui
