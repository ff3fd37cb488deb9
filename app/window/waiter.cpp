#include "app/window/waiter.h"

#include <GLFW/glfw3.h>

#include <chrono>

namespace refreshlab {
namespace {

class DisplayWaiter final : public Waiter {
public:
    void wait(double seconds) override {
        if (seconds > 0)
            glfwWaitEventsTimeout(seconds);
        else
            glfwPollEvents();
    }
    void poll() override { glfwPollEvents(); }

private:
    void interrupt() override { glfwPostEmptyEvent(); }
};

class HeadlessWaiter final : public Waiter {
public:
    void wait(double seconds) override {
        std::unique_lock lock(m_mutex);
        m_changed.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return m_interrupted; });
        m_interrupted = false; // one wake-up ends one wait, even when no frame has taken the news yet
    }
    void poll() override {}

private:
    void interrupt() override {
        {
            const std::lock_guard lock(m_mutex);
            m_interrupted = true;
        }
        m_changed.notify_one();
    }
    std::mutex m_mutex;
    std::condition_variable m_changed;
    bool m_interrupted = false;
};

} // namespace

std::unique_ptr<Waiter> make_display_waiter() {
    return std::make_unique<DisplayWaiter>();
}
std::unique_ptr<Waiter> make_headless_waiter() {
    return std::make_unique<HeadlessWaiter>();
}

} // namespace refreshlab
