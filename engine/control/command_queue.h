#pragma once

#include "engine/control/command.h"

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>

namespace refreshlab {

/// Commands from the UI thread to the decode thread. A later command with the same coalesce_key takes the place of the
/// earlier one at the end of the queue, so a dragged slider never piles up (reference/style.md, habit 9).
/// Threads  any thread pushes, one thread pops. The mutex protects the deque only and is held for a push or a pop; the
///          decode thread waits on the condition while it has nothing to decode.
class CommandQueue {
public:
    void push(Command command);
    [[nodiscard]] std::optional<Command> try_pop();
    /// Waits until there is a command or close() was called; nothing after close() once the queue is empty.
    [[nodiscard]] std::optional<Command> wait_pop();
    void close();
    [[nodiscard]] size_t size() const;

private:
    mutable std::mutex m_mutex;
    std::condition_variable m_changed;
    std::deque<Command> m_commands;
    bool m_closed = false;
};

} // namespace refreshlab
