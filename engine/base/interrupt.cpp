#include "engine/base/interrupt.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string_view>

namespace refreshlab {

namespace {

std::atomic<int> noted{0};
std::atomic<bool> flag{false};
std::atomic<bool> terminal{false}; ///< stderr is one: a person waits there

static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "a signal handler may touch lock-free atomics only");

/// Only what a signal handler may call.
void handle(int number) {
    if (noted.exchange(number) != 0) {
        std::signal(number, SIG_DFL);
        static_cast<void>(raise(number)); // ends the program when this handler returns
        return;
    }
    flag = true;
    constexpr std::string_view text = "\nstopping; once more ends the program at once\n";
    if (!terminal) return;
    const int before = errno;
    static_cast<void>(!write(STDERR_FILENO, text.data(), text.size()));
    errno = before;
}

} // namespace

void note_interrupts() {
    terminal = isatty(STDERR_FILENO) != 0;
    std::signal(SIGINT, handle);
    std::signal(SIGTERM, handle);
}

int interrupted() {
    return noted;
}

const std::atomic<bool>& interrupt_flag() {
    return flag;
}

} // namespace refreshlab
