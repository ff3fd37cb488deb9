#pragma once

#include "engine/control/command.h"

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

namespace refreshlab {

/// Commands from the UI thread to the decode thread. A later command with the same coalesce_key takes the place of the
/// earlier one at the end of the queue, so a dragged slider never piles up (reference/style.md, habit 9). A whole new
/// policy also takes out the settings that were meant for the waiting one it replaces.
/// Threads  any thread pushes, one thread pops. The mutex protects the deque only and is held for a push or a pop; the
///          decode thread waits on the condition while it has nothing to decode.
class CommandQueue {
public:
    /// After close() the command is dropped.
    void push(Command command);
    [[nodiscard]] std::optional<Command> try_pop();
    /// Waits until there is a command or close() was called; nothing after close() once the queue is empty.
    [[nodiscard]] std::optional<Command> wait_pop();
    void close();
    [[nodiscard]] size_t size() const;

private:
    struct Waiting {
        Command command;
        std::string key; ///< its coalesce_key
    };
    std::optional<Command> pop_front(); ///< under the mutex

    mutable std::mutex m_mutex;
    std::condition_variable m_changed;
    std::deque<Waiting> m_commands;
    bool m_closed = false;
};

} // namespace refreshlab
