#include "ui/shell/frame_governor.h"

#include <algorithm>
#include <limits>

namespace refreshlab::ui {

void FrameGovernor::frame_drawn(double began, double cost_s) {
    m_last_frame = began;
    if (m_costs.size() < remembered) {
        m_costs.push_back(cost_s);
        return;
    }
    m_costs[m_next] = cost_s;
    m_next = (m_next + 1) % remembered;
}

double FrameGovernor::cost_s() const {
    if (m_costs.empty()) return 0;
    std::vector<double> sorted =
        m_costs; // the median: one slow frame (first use of a font size) must not slow the rest
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
}

double FrameGovernor::period(const Situation& s) const {
    if (s.mouse_held || s.input_left) return fastest; // the hand must see what it does
    if (s.decoding)
        return std::clamp(cost_s() / (share_of_cores * static_cast<double>(m_cores)), fastest,
                          slowest_while_decoding);
    return std::max(fastest, cost_s());
}

double FrameGovernor::due(const Situation& s) const {
    constexpr double never = std::numeric_limits<double>::infinity();
    if (s.minimised) return never;
    const double pace = period(s);
    if (s.last_input >= m_last_frame || s.last_news >= m_last_frame || s.awake_until > s.now ||
        s.mouse_held || s.input_left)
        return m_last_frame + pace;
    // Tooltips appear after a delay and layouts settle over a few frames: a little faster at first.
    const double quiet = m_last_frame - std::max(s.last_input, s.last_news);
    double next = never;
    if (quiet < settle_s) next = m_last_frame + std::max(pace, quiet < settle_s / 4 ? 0.05 : 0.25);
    if (s.text_cursor) next = std::min(next, m_last_frame + std::max(pace, 0.4));
    return next;
}

double FrameGovernor::wait_s(const Situation& s) const {
    return std::clamp(due(s) - s.now, 0.0, longest_wait_s);
}

} // namespace refreshlab::ui
