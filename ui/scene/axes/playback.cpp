#include "ui/scene/axes/playback.h"

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

int64_t Playback::start(int64_t shown, int64_t first, int64_t last) {
    m_rest = 0;
    m_at = shown < first || shown >= last ? first : shown;
    return *m_at;
}

std::optional<int64_t> Playback::advance(std::optional<int64_t> selected, double seconds, int64_t first,
                                         int64_t last) {
    if (m_at && selected != m_at) stop();
    if (!m_at) return std::nullopt;
    m_rest += std::clamp(seconds, 0.0, longest_frame_s) * steps_per_second;
    const double whole = std::floor(m_rest);
    m_rest -= whole;
    const int64_t length = std::max<int64_t>(1, last - first + 1);
    int64_t step = std::max(*m_at + static_cast<int64_t>(whole), first);
    if (step > last && loop) step = first + (step - first) % length;
    if (step >= last && !loop) {
        stop();
        return last;
    }
    m_at = step;
    return step;
}

} // namespace refreshlab::ui
