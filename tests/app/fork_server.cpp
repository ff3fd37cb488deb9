#include "tests/app/fork_server.h"

#include "app/cli/program.h"

#include <catch2/catch_test_case_info.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace refreshlab::test {

namespace {

int server = -1; ///< the suite's end of the connection

bool send_all(int socket, const void* data, size_t size) {
    const auto* bytes = static_cast<const char*>(data);
    while (size > 0) {
        const ssize_t sent = send(socket, bytes, size, MSG_NOSIGNAL);
        if (sent <= 0) return false;
        bytes += sent;
        size -= static_cast<size_t>(sent);
    }
    return true;
}

bool receive_all(int socket, void* data, size_t size) {
    auto* bytes = static_cast<char*>(data);
    while (size > 0) {
        const ssize_t got = recv(socket, bytes, size, 0);
        if (got <= 0) return false;
        bytes += got;
        size -= static_cast<size_t>(got);
    }
    return true;
}

/// In the child: what main() does besides.
[[noreturn]] void run_program_here(const std::string& call) {
    std::vector<const char*> words;
    for (size_t at = 0; at < call.size(); at = call.find('\0', at) + 1)
        words.push_back(call.c_str() + at);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGSEGV, SIGABRT, SIGFPE, SIGILL})
        std::signal(number, SIG_DFL);
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);
    dup2(open(words[0], O_CREAT | O_WRONLY | O_TRUNC, 0600), STDOUT_FILENO);
    dup2(open(words[1], O_CREAT | O_WRONLY | O_TRUNC, 0600), STDERR_FILENO);
    unsetenv("DISPLAY");
    unsetenv("WAYLAND_DISPLAY");
    if (chdir(RL_SOURCE_DIR) != 0) std::_Exit(126);
    std::vector<const char*> argv{RL_BUILD_DIR "/refreshlab"};
    argv.insert(argv.end(), words.begin() + 2, words.end());
    argv.push_back(nullptr);
    const int status = app::run_program(static_cast<int>(argv.size()) - 1, argv.data());
    static_cast<void>(std::fflush(nullptr));
    std::_Exit(status);
}

/// One call after the other, until the suite is gone.
[[noreturn]] void serve(int socket) {
    for (uint64_t size = 0; receive_all(socket, &size, sizeof size);) {
        std::string text(size, '\0');
        if (!receive_all(socket, text.data(), size)) break;
        const pid_t child = fork();
        if (child == 0) {
            close(socket);
            run_program_here(text);
        }
        int state = 0;
        waitpid(child, &state, 0);
        const int status = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
        if (!send_all(socket, &status, sizeof status)) break;
    }
    std::_Exit(0);
}

/// Before the first case, and so before any thread.
class StartOfServer final : public Catch::EventListenerBase {
public:
    using EventListenerBase::EventListenerBase;
    void testRunStarting(const Catch::TestRunInfo&) override {
        int ends[2] = {-1, -1};
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
            throw std::runtime_error("no socket pair");
        static_cast<void>(std::fflush(nullptr)); // what stands in buffers is written once
        const pid_t child = fork();
        if (child == 0) {
            close(ends[0]);
            serve(ends[1]);
        }
        close(ends[1]);
        server = ends[0];
    }
};
CATCH_REGISTER_LISTENER(StartOfServer)

} // namespace

int run_forked(const std::vector<std::string>& arguments, const std::string& out, const std::string& err) {
    std::string call = out + '\0' + err + '\0'; // bytes: an argument need not be UTF-8
    for (const std::string& argument : arguments)
        call += argument + '\0';
    const uint64_t size = call.size();
    int status = -1;
    if (!send_all(server, &size, sizeof size) || !send_all(server, call.data(), call.size()) ||
        !receive_all(server, &status, sizeof status))
        throw std::runtime_error("the process that runs the program's code is gone");
    return status;
}

} // namespace refreshlab::test
