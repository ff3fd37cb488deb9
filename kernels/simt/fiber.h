#pragma once

#include <cstddef>

namespace refreshlab::simt {

/// A thread of a block: a stack of its own on the thread of the host that runs the block. Not to be destroyed while it runs.
class Fiber {
public:
    Fiber() = default;
    ~Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    /// Makes it ready to run `body(argument)` from the beginning; what stood on its stack is given up.
    void prepare(void (*body)(void* argument), void* argument);
    /// From the host's thread: goes on until leave(), or until the body ends.
    void resume();
    /// From the fiber: back to where resume() was called.
    void leave();

    /// An address on its stack.
    [[nodiscard]] bool holds(const void* at) const {
        const auto* const byte = static_cast<const char*>(at);
        return byte >= m_stack && byte < m_stack + stack_bytes;
    }
    static constexpr size_t stack_bytes = 128 * 1024;

private:
    struct Entry;

    char* m_stack = nullptr;   ///< [stack_bytes], behind a page that nobody may touch
    void* m_context = nullptr; ///< where the fiber goes on
    void* m_host = nullptr;    ///< where the host goes on
    void (*m_body)(void*) = nullptr;
    void* m_argument = nullptr;
    const void* m_host_stack = nullptr; ///< for the sanitizer
    size_t m_host_stack_bytes = 0;
};

} // namespace refreshlab::simt
