#pragma once

#include "engine/base/origin.h"
#include "engine/record/recording/recording.h"

#include <cstdint>
#include <vector>

namespace refreshlab::ui {

/// Who had written the cache entries of generated tokens at one step, told from the recorded refreshes: the decoding
/// model, then the teacher where a splice reached, or nobody else for good where a windowed splice moved past.
/// Cost of update(): O(refreshes up to the step); of of(): O(log refreshes).
class TokenOrigins {
public:
    void reset();
    /// State behind boundary `step`. Nothing happens while recording and step stay the same.
    void update(const Recording& recording, int64_t step);
    /// Of token y_t; none for tokens that are not fed yet.
    [[nodiscard]] Origin of(int64_t token) const;

private:
    struct Span {
        int64_t first, last; ///< tokens
        Origin origin;
    };
    const Recording* m_recording = nullptr; ///< compared only, never read later
    int64_t m_step = -1;
    size_t m_refreshes = 0;
    Origin m_decoder = Origin::student;
    std::vector<Span> m_spans; ///< ascending, apart
};

} // namespace refreshlab::ui
