#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace refreshlab::python {

/// Whether the next step of a session may begin: a window pauses it, lets it make single steps, and sets its pace. Open, and without a pace,
/// where no window is.
///
/// Threads  any. The mutex protects all of it and is held for a look; pass() waits on the condition.
class Hold {
public:
    using Clock = std::chrono::steady_clock;

    /// So many steps begin yet, then none.
    void close(int64_t steps = 0);
    void open();
    [[nodiscard]] bool closed() const; ///< no step begins
    /// At most so many steps a second; 0: as they come.
    void set_pace(double steps_per_second);
    [[nodiscard]] double pace() const;
    /// The next step need not wait for its time.
    void hurry();
    /// Waits until a step may begin, at most so long. \return whether it may; then it counts as begun
    [[nodiscard]] bool pass(std::chrono::milliseconds at_most);

private:
    mutable std::mutex m_mutex;
    std::condition_variable m_changed;
    bool m_closed = false;
    int64_t m_steps = 0; ///< that begin though it is closed
    double m_pace = 0;
    Clock::time_point m_due{};
};

} // namespace refreshlab::python
