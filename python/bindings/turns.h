#pragma once

#include "engine/base/error.h"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace refreshlab::python {

/// Threads that use one session take turns, in the order in which they came: a step at a time, so that a command of one thread comes between
/// two steps of another. Wait with the interpreter's lock let go.
class Turns {
public:
    class Turn {
    public:
        /// Throws Error{bad_input} in the thread whose turn it is: it would wait for itself.
        explicit Turn(Turns& turns)
            : m_turns(turns) {
            std::unique_lock lock(m_turns.m_mutex);
            if (m_turns.m_whose == std::this_thread::get_id())
                throw Error("using a session", {}, "code of its own is at work in a step",
                            "a signal or a cache policy reads what it is shown");
            const uint64_t mine = m_turns.m_next++;
            m_turns.m_changed.wait(lock, [&] { return m_turns.m_now == mine; });
            m_turns.m_whose = std::this_thread::get_id();
        }
        ~Turn() {
            {
                const std::lock_guard lock(m_turns.m_mutex);
                ++m_turns.m_now;
                m_turns.m_whose = {};
            }
            m_turns.m_changed.notify_all();
        }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;

    private:
        Turns& m_turns;
    };

    /// The turn is this thread's.
    [[nodiscard]] bool mine() const {
        const std::lock_guard lock(m_mutex);
        return m_whose == std::this_thread::get_id();
    }

private:
    mutable std::mutex m_mutex; ///< protects what follows; held for a look-up
    std::condition_variable m_changed;
    uint64_t m_next = 0, m_now = 0;
    std::thread::id m_whose; ///< of the turn that is taken
};

} // namespace refreshlab::python
