#include "python/bindings/hold.h"

#include <algorithm>

namespace refreshlab::python {

void Hold::close(int64_t steps) {
    {
        const std::lock_guard lock(m_mutex);
        m_closed = true;
        m_steps = steps;
    }
    m_changed.notify_all();
}

void Hold::open() {
    {
        const std::lock_guard lock(m_mutex);
        m_closed = false;
        m_steps = 0;
    }
    m_changed.notify_all();
}

bool Hold::closed() const {
    const std::lock_guard lock(m_mutex);
    return m_closed && m_steps == 0;
}

void Hold::set_pace(double steps_per_second) {
    {
        const std::lock_guard lock(m_mutex);
        m_pace = steps_per_second;
        m_due = Clock::now();
    }
    m_changed.notify_all();
}

double Hold::pace() const {
    const std::lock_guard lock(m_mutex);
    return m_pace;
}

void Hold::hurry() {
    {
        const std::lock_guard lock(m_mutex);
        m_due = Clock::now();
    }
    m_changed.notify_all();
}

bool Hold::pass(std::chrono::milliseconds at_most) {
    const Clock::time_point limit = Clock::now() + at_most;
    std::unique_lock lock(m_mutex);
    while (true) {
        const Clock::time_point now = Clock::now();
        const bool let = !m_closed || m_steps > 0;
        const bool waits_for_time = let && m_pace > 0 && m_steps == 0 && now < m_due;
        if (let && !waits_for_time) {
            if (m_steps > 0) --m_steps;
            // Small delays are made up for; after a long one the next steps do not hurry.
            if (m_pace > 0) {
                const auto period =
                    std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 / m_pace));
                m_due = (now - m_due > period ? now : m_due) + period;
            }
            return true;
        }
        if (now >= limit) return false;
        m_changed.wait_until(lock, waits_for_time ? std::min(m_due, limit) : limit);
    }
}

} // namespace refreshlab::python
