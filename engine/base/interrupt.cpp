#include "engine/base/interrupt.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <string_view>

namespace refreshlab {

namespace {

/// The signal that came first and when: milliseconds of the monotonic clock * 256 + its number; 0 without one. One number, because two
/// threads may handle two signals at the same time.
std::atomic<int64_t> first{0};
std::atomic<bool> flag{false};
std::atomic<bool> terminal{false}; ///< stderr is one: a person waits there

static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "a signal handler may touch lock-free atomics only");

int number_in(int64_t noted) {
    return static_cast<int>(noted & 0xFF);
}

/// Only what a signal handler may call.
void handle(int number) {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t ms = int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
    int64_t noted = 0;
    if (!first.compare_exchange_strong(noted, ms << 8 | number)) {
        if (number_in(noted) == number && ms - (noted >> 8) < interrupt_repeat.count()) return;
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
    return number_in(first);
}

const std::atomic<bool>& interrupt_flag() {
    return flag;
}

} // namespace refreshlab
