#pragma once

#include "engine/record/recording/cache_state.h"
#include "engine/record/recording/recording.h"

#include <cstdint>
#include <optional>

namespace refreshlab::ui {

/// Tokens that no layer holds any more: their entries are evicted, or merged into others, in every layer and KV head of the model
/// that decodes. Cost of update(): the cache events that are new, and the positions up to the first that is gone.
class GoneTokens {
public:
    void reset(); ///< before another recording is shown
    /// The state after step `step`. Nothing happens while recording and step stay the same.
    void update(const Recording& recording, int64_t step);
    /// Step at which the last layer gave the position up; 0 = after the prompt was read. Nothing where some layer holds it.
    [[nodiscard]] std::optional<int64_t> gone_at(int64_t position) const;
    [[nodiscard]] bool any() const { return m_any; }

private:
    const Recording* m_recording = nullptr; ///< compared only
    int64_t m_step = -1;
    size_t m_entries = 0;
    CacheState m_cache;
    bool m_any = false;
};

} // namespace refreshlab::ui
