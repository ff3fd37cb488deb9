#pragma once

#include "engine/control/command.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

namespace refreshlab {

/// Commands from the UI thread to the decode thread. A later command with the same coalesce_key takes the place of the
/// earlier one at the end of the queue, so a dragged slider never piles up (development/style.md, habit 9). A whole new
/// policy also removes the settings that were meant for the waiting policy it replaces.
/// Threads  any thread pushes, one thread pops. The mutex protects the deque only and is held for a push or a pop; the
///          decode thread waits on the condition while it has nothing to decode.
class CommandQueue {
public:
    /// \return the command's ticket: 1, 2, 3, ... in the order in which commands come and leave. After close() the
    /// command is dropped and the ticket is 0.
    uint64_t push(Command command);
    struct Taken {
        Command command;
        uint64_t ticket = 0;
    };
    [[nodiscard]] std::optional<Taken> try_pop();
    /// Waits until there is a command or close() was called; nothing after close() once the queue is empty.
    [[nodiscard]] std::optional<Taken> wait_pop();
    /// The same with a deadline: nothing where no command came before it.
    [[nodiscard]] std::optional<Taken> wait_pop_until(std::chrono::steady_clock::time_point moment);
    void close();
    [[nodiscard]] size_t size() const;

private:
    struct Waiting {
        Taken taken;
        std::string key; ///< its coalesce_key
    };
    std::optional<Taken> pop_front(); ///< under the mutex

    mutable std::mutex m_mutex;
    std::condition_variable m_changed;
    std::deque<Waiting> m_commands; ///< by rising ticket
    uint64_t m_last_ticket = 0;
    bool m_closed = false;
};

} // namespace refreshlab
