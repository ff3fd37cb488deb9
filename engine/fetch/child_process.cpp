#include "engine/fetch/child_process.h"

#include "engine/base/error.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

namespace refreshlab {

namespace {

/// The reading end of a pipe, closed with the object.
class Pipe {
public:
    Pipe() {
        if (::pipe2(m_ends.data(), O_CLOEXEC) != 0)
            throw Error("starting a program", {}, std::strerror(errno), {}, ErrorKind::failure);
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    ~Pipe() {
        ::close(m_ends[0]);
        close_writing();
    }
    void close_writing() {
        if (m_ends[1] >= 0) ::close(m_ends[1]);
        m_ends[1] = -1;
    }
    [[nodiscard]] int reading() const { return m_ends[0]; }
    [[nodiscard]] int writing() const { return m_ends[1]; }

private:
    std::array<int, 2> m_ends{-1, -1};
};

/// A process group of its own, with its output in the pipe and nothing to read.
pid_t start(const std::vector<std::string>& command, const std::vector<std::string>& environment,
            const Pipe& pipe) {
    std::vector<char*> arguments, variables;
    for (const std::string& one : command)
        arguments.push_back(const_cast<char*>(one.c_str()));
    for (const std::string& one : environment)
        variables.push_back(const_cast<char*>(one.c_str()));
    arguments.push_back(nullptr);
    variables.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&files, pipe.writing(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&files, pipe.writing(), STDERR_FILENO);
    // Signals that this process ignores (a closed pipe) are the program's own business.
    sigset_t defaults;
    ::sigemptyset(&defaults);
    ::sigaddset(&defaults, SIGPIPE);
    ::sigaddset(&defaults, SIGXFSZ);
    ::posix_spawnattr_setsigdefault(&attributes, &defaults);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
    pid_t child = -1;
    const int code =
        ::posix_spawnp(&child, arguments[0], &files, &attributes, arguments.data(), variables.data());
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
    if (code != 0) throw Error("starting", command.front(), std::strerror(code), {}, ErrorKind::failure);
    return child;
}

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& own) {
    std::vector<std::string> all;
    for (char** variable = environ; *variable != nullptr; ++variable) {
        const std::string_view entry = *variable;
        const bool replaced = std::any_of(own.begin(), own.end(), [&](const auto& pair) {
            return entry.starts_with(pair.first) && entry.substr(pair.first.size()).starts_with('=');
        });
        if (!replaced) all.emplace_back(entry);
    }
    for (const auto& [name, value] : own)
        all.push_back(name + "=" + value);
    return all;
}

} // namespace

ChildResult run_child(const std::vector<std::string>& command,
                      const std::vector<std::pair<std::string, std::string>>& environment,
                      const std::function<bool()>& go_on) {
    Pipe pipe;
    const pid_t child = start(command, environment_with(environment), pipe);
    pipe.close_writing();
    constexpr size_t kept = size_t{64} << 10;
    constexpr int tenth_of_a_second = 100;
    ChildResult result;
    std::array<char, 4096> block{};
    // Its output ends when it and all that it started have ended.
    for (bool open = true; open;) {
        pollfd waiting{pipe.reading(), POLLIN, 0};
        const int ready = ::poll(&waiting, 1, tenth_of_a_second);
        if (ready > 0) {
            const ssize_t got = ::read(pipe.reading(), block.data(), block.size());
            open = got > 0 || (got < 0 && errno == EINTR);
            if (got > 0) result.said.append(block.data(), static_cast<size_t>(got));
            if (result.said.size() > 2 * kept) result.said.erase(0, result.said.size() - kept);
        }
        if (open && !result.stopped && !go_on()) {
            result.stopped = true;
            ::kill(-child, SIGKILL);
        }
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (result.said.size() > kept) result.said.erase(0, result.said.size() - kept);
    return result;
}

} // namespace refreshlab
