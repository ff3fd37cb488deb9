// What becomes of a process that is told to stop. Each case is a process of its own: a signal that was noted stays noted.
#include "engine/base/interrupt.h"

#include <catch2/catch_test_macros.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>

namespace interrupt_test {

using namespace refreshlab;

namespace {

constexpr int lives = 42; ///< exit status of a child that nothing has ended

/// \return how the child ended, as waitpid() says it
int state_after(const std::function<void()>& signals) {
    static_cast<void>(std::fflush(nullptr)); // what stands in buffers is written once
    const pid_t child = fork();
    if (child == 0) {
        note_interrupts();
        signals();
        _exit(interrupt_flag() && interrupted() == SIGTERM ? lives : 1);
    }
    int state = 0;
    waitpid(child, &state, 0);
    return state;
}

void send(int signal) {
    static_cast<void>(raise(signal)); // returns when the handler has
}

} // namespace

TEST_CASE("the first signal is noted, and the same one at once again is no second one", "[base]") {
    const int once = state_after([] { send(SIGTERM); });
    CHECK((WIFEXITED(once) && WEXITSTATUS(once) == lives));
    const int twice = state_after([] {
        send(SIGTERM);
        send(SIGTERM);
        send(SIGTERM);
    });
    CHECK((WIFEXITED(twice) && WEXITSTATUS(twice) == lives));
}

TEST_CASE("another signal, or the same one later, ends the program", "[base]") {
    const int other = state_after([] {
        send(SIGTERM);
        send(SIGINT);
    });
    CHECK((WIFSIGNALED(other) && WTERMSIG(other) == SIGINT));
    const int later = state_after([] {
        send(SIGTERM);
        const auto until = std::chrono::steady_clock::now() + interrupt_repeat;
        while (std::chrono::steady_clock::now() <= until + std::chrono::milliseconds(1)) {
        }
        send(SIGTERM);
    });
    CHECK((WIFSIGNALED(later) && WTERMSIG(later) == SIGTERM));
}

} // namespace interrupt_test
