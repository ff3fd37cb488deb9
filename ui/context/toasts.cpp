#include "ui/context/toasts.h"

#include <algorithm>

namespace refreshlab::ui {

namespace {
constexpr size_t max_lines = 5000; // older lines go: the log must not grow for ever
constexpr size_t look_back = 8;    // "the same again" within this many lines only counts up
} // namespace

void Toasts::add(Level level, std::string text, double time_s, bool toast) {
    const size_t first = m_lines.size() > look_back ? m_lines.size() - look_back : 0;
    for (size_t i = m_lines.size(); i-- > first;) {
        Line& line = m_lines[i];
        if (line.level != level || line.text != text) continue;
        ++line.repeats;
        line.time_s = time_s;
        line.shown_as_toast |= toast;
        // The newest stands last, so that a reader of the tail sees it.
        std::rotate(m_lines.begin() + static_cast<std::ptrdiff_t>(i),
                    m_lines.begin() + static_cast<std::ptrdiff_t>(i) + 1, m_lines.end());
        return;
    }
    m_lines.push_back({time_s, level, std::move(text), toast, 1});
    if (m_lines.size() > max_lines)
        m_lines.erase(m_lines.begin(), m_lines.begin() + static_cast<std::ptrdiff_t>(max_lines / 10));
}

void Toasts::dismiss_all() {
    m_dismissed = m_lines.empty() ? m_dismissed : m_lines.back().time_s;
    for (const Line& line : m_lines)
        m_dismissed = std::max(m_dismissed, line.time_s);
}

} // namespace refreshlab::ui
