#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

namespace refreshlab {

/// How the loop waits. GLFW's own waiting works with a display only: on the null platform its waits return at once and
/// its wake-ups do nothing (development/ui.md, 6), so there a condition variable takes its place.
class Waiter {
public:
    virtual ~Waiter() = default;
    /// UI thread: returns after input, a wake-up, or `seconds`; may return early for no reason. Input callbacks run
    /// inside.
    virtual void wait(double seconds) = 0;
    /// UI thread: runs input callbacks for what has arrived, without waiting.
    virtual void poll() = 0;
    /// Any thread: ends the wait. At most one wake-up is pending until take_news(); the others cost an atomic exchange.
    void wake() {
        if (!m_pending.exchange(true, std::memory_order_acq_rel)) interrupt();
    }
    /// UI thread, at the start of a frame: was there a wake-up since the last call?
    bool take_news() { return m_pending.exchange(false, std::memory_order_acq_rel); }
    /// UI thread: is there one that no frame has taken yet?
    [[nodiscard]] bool news() const { return m_pending.load(std::memory_order_acquire); }

protected:
    virtual void interrupt() = 0;

private:
    std::atomic<bool> m_pending{false}; // set by the decode thread, cleared by the frame that shows the news
};

/// With a display: glfwWaitEventsTimeout and glfwPostEmptyEvent.
[[nodiscard]] std::unique_ptr<Waiter> make_display_waiter();
/// Without one: a condition variable. The mutex is held for setting or reading one flag.
[[nodiscard]] std::unique_ptr<Waiter> make_headless_waiter();

} // namespace refreshlab
