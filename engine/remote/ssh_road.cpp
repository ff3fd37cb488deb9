#include "engine/remote/ssh_road.h"

#include "engine/base/error.h"
#include "engine/base/shell_word.h"
#include "engine/fetch/child_process.h"
#include "engine/text/utf8.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <thread>
#include <utility>

namespace refreshlab::remote {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::string_view ssh_prefix = "ssh://";
constexpr auto connecting_by_ssh = "connecting to"; ///< Error::doing
constexpr size_t kept_of_stderr = 4096, longest_said = 300;
/// Between two looks at what ssh has written and whether to give up.
constexpr int look_ms = 50;
/// What was started gets so long to end in good order: a server finishes its step and its trace.
constexpr std::chrono::seconds end_patience{8};

class Fd {
public:
    Fd() = default;
    explicit Fd(int fd)
        : m_fd(fd) {}
    Fd(Fd&& other) noexcept
        : m_fd(std::exchange(other.m_fd, -1)) {}
    Fd& operator=(Fd&& other) noexcept {
        if (this != &other) {
            close();
            m_fd = std::exchange(other.m_fd, -1);
        }
        return *this;
    }
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;
    ~Fd() { close(); }
    void close() {
        if (m_fd >= 0) ::close(m_fd);
        m_fd = -1;
    }
    [[nodiscard]] int get() const { return m_fd; }

private:
    int m_fd = -1;
};

struct Ends {
    Fd reading, writing;
};
/// No other child of this process may hold an end: who waits for its close would wait for that child too.
Ends make_pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        throw Error("starting ssh", {}, std::strerror(errno), {}, ErrorKind::failure);
    return {Fd(ends[0]), Fd(ends[1])};
}

/// \param fds  become 0, 1 and 2; -1: as here
pid_t spawn(const std::vector<std::string>& command, const std::array<int, 3>& fds) {
    std::vector<char*> arguments;
    for (const std::string& one : command)
        arguments.push_back(const_cast<char*>(one.c_str()));
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    for (int i = 0; i < 3; ++i)
        if (fds[static_cast<size_t>(i)] >= 0)
            ::posix_spawn_file_actions_adddup2(&files, fds[static_cast<size_t>(i)], i);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    sigset_t defaults;
    ::sigemptyset(&defaults);
    ::sigaddset(&defaults, SIGPIPE); // ignored here
    ::posix_spawnattr_setsigdefault(&attributes, &defaults);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    pid_t child = -1;
    const int code = ::posix_spawnp(&child, arguments[0], &files, &attributes, arguments.data(), ::environ);
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
    if (code != 0) throw Error("starting", command.front(), std::strerror(code), {}, ErrorKind::failure);
    return child;
}

bool is_program(const std::string& name) {
    const auto executable = [](const fs::path& path) {
        std::error_code error;
        return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
    };
    if (name.find('/') != std::string::npos) return executable(name);
    const char* path = std::getenv("PATH");
    std::string_view rest = path == nullptr ? "/usr/bin:/bin" : path;
    while (true) {
        const size_t end = rest.find(':');
        if (const auto folder = rest.substr(0, end); !folder.empty() && executable(fs::path(folder) / name))
            return true;
        if (end == std::string_view::npos) return false;
        rest.remove_prefix(end + 1);
    }
}

/// The last line with words: before it ssh may have said what it always says.
std::string last_line(std::string text) {
    std::erase(text, '\r');
    while (!text.empty() && (text.back() == '\n' || text.back() == ' '))
        text.pop_back();
    const size_t begin = text.rfind('\n');
    return visible_text(begin == std::string::npos ? text : text.substr(begin + 1), longest_said);
}

int status_of(int wait_status) {
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

std::string words(const std::vector<std::string>& command) {
    std::string all;
    for (const std::string& word : command)
        all += (all.empty() ? "" : " ") + shell_word(word);
    return all;
}

} // namespace

bool is_ssh_address(const std::string& text) {
    return text.starts_with(ssh_prefix);
}

SshAddress parse_ssh_address(const std::string& text, const std::string& what) {
    const auto refuse = [&](const std::string& problem) {
        return Error("reading", what, fmt::format("'{}' {}", visible_text(text, 100), problem),
                     "give ssh://USER@HOST or ssh://USER@HOST:PORT");
    };
    if (!is_ssh_address(text)) throw refuse("is no address for ssh");
    std::string rest = text.substr(ssh_prefix.size());
    if (rest.ends_with('/')) rest.pop_back();
    SshAddress address;
    if (const size_t at = rest.rfind('@'); at != std::string::npos) {
        address.user = rest.substr(0, at);
        rest.erase(0, at + 1);
        if (address.user.empty()) throw refuse("has no user before the @");
    }
    std::string port;
    bool has_port = false;
    if (rest.starts_with('[')) {
        const size_t end = rest.find(']');
        if (end == std::string::npos) throw refuse("has no ]");
        const std::string behind = rest.substr(end + 1);
        if (!behind.empty() && behind.front() != ':') throw refuse("is no address");
        has_port = !behind.empty();
        if (has_port) port = behind.substr(1);
        rest = rest.substr(1, end - 1);
    } else if (const size_t colon = rest.rfind(':'); colon != std::string::npos) {
        if (rest.find(':') != colon) throw refuse("is no address; an IPv6 one stands in [ ]");
        has_port = true;
        port = rest.substr(colon + 1);
        rest.erase(colon);
    }
    address.host = rest;
    if (address.host.empty()) throw refuse("has no host");
    // ssh would take the first for an option, and the others have a meaning in its configuration.
    const auto bad = [](const std::string& name) {
        return name.starts_with('-') || std::ranges::any_of(name, [](char c) {
                   return c <= ' ' || c == 127 ||
                          std::string_view("/'\"`\\$;&<>|()%").find(c) != std::string_view::npos;
               });
    };
    if (bad(address.host) || bad(address.user)) throw refuse("is no address");
    if (!has_port) return address;
    const auto [last, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
    if (error != std::errc() || last != port.data() + port.size() || address.port == 0)
        throw refuse("has no port from 1 to 65535");
    return address;
}

std::string to_string(const SshAddress& address) {
    const bool six = address.host.find(':') != std::string::npos;
    return fmt::format("{}{}{}{}{}{}{}", ssh_prefix, address.user, address.user.empty() ? "" : "@",
                       six ? "[" : "", address.host, six ? "]" : "",
                       address.port == 0 ? std::string() : fmt::format(":{}", address.port));
}

struct SshRoad::Impl {
    explicit Impl(Options given)
        : options(std::move(given)) {}
    ~Impl() {
        end();
        std::error_code ignored;
        if (!folder.empty()) fs::remove_all(folder, ignored);
    }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    [[nodiscard]] Error failed(const std::string& why, const std::string& hint = {}) const {
        return {connecting_by_ssh, to_string(options.to), why, hint, ErrorKind::failure};
    }

    Endpoint open() {
        if (ssh > 0 && has_ended()) end();
        if (ssh > 0) return there;
        if (!is_program(options.ssh))
            throw failed(fmt::format("there is no program '{}' here", options.ssh),
                         "install OpenSSH's client (openssh-client)");
        if (folder.empty()) make_folder();
        try {
            start();
            forward(server_address());
        } catch (...) {
            end();
            throw;
        }
        return there;
    }

    void make_folder() {
        std::string name = (fs::temp_directory_path() / "refreshlab-XXXXXX").string();
        // The longest name in it: ssh's control socket, to which ssh adds 17 characters while it makes it.
        constexpr size_t longest = 70;
        if (name.size() > longest) name = "/tmp/refreshlab-XXXXXX";
        if (::mkdtemp(name.data()) == nullptr) // 0700
            throw failed(fmt::format("no folder for a socket can be made: {}", std::strerror(errno)));
        folder = name;
    }
    [[nodiscard]] std::string control() const { return "ControlPath=" + folder + "/ssh"; }
    [[nodiscard]] std::string host() const {
        return options.to.user.empty() ? options.to.host : options.to.user + "@" + options.to.host;
    }
    void add_port(std::vector<std::string>& command) const {
        if (options.to.port == 0) return;
        command.insert(command.end(), {"-p", std::to_string(options.to.port)});
    }
    void say(const std::vector<std::string>& command) const {
        if (options.say) options.say(words(command));
    }

    /// ssh with the server on its other end, and the shell that tells the server when this process has ended, however it ended.
    void start() {
        std::string serve = "exec " + shell_word(options.program) + " serve --for-window";
        for (const std::string& option : options.serve)
            serve += " " + shell_word(option);
        if (started_server) serve += " --own";
        std::vector<std::string> command{options.ssh, "-o", "ControlMaster=yes", "-o", control()};
        for (const char* option :
             {"ControlPersist=no", "ConnectTimeout=15", "ServerAliveInterval=5", "ServerAliveCountMax=3",
              "ExitOnForwardFailure=yes", "RequestTTY=no", "RemoteCommand=none", "LogLevel=ERROR"})
            command.insert(command.end(), {"-o", option});
        // Nobody looks at the terminal when a lost connection comes back.
        if (was_open) command.insert(command.end(), {"-o", "BatchMode=yes"});
        add_port(command);
        command.insert(command.end(), {"--", host(), serve});
        say(command);
        // Ctrl-C is the window's: what it has started ends after it, in good order.
        constexpr auto ignores = "trap '' INT QUIT HUP; exec \"$@\"";
        constexpr auto tells =
            "trap '' INT QUIT HUP TERM; cat > /dev/null; echo \"$1\"; exec >&-; "
            "for i in 1 2 3 4 5 6 7 8; do [ -S \"$2/ssh\" ] || break; sleep 1; done; rm -rf -- \"$2\"";
        Ends life = make_pipe(), in = make_pipe(), out = make_pipe(), err = make_pipe();
        alive = std::move(life.writing);
        shell = spawn({"/bin/sh", "-c", tells, "refreshlab", for_window::end, folder},
                      {life.reading.get(), in.writing.get(), -1});
        std::vector<std::string> wrapped{"/bin/sh", "-c", ignores, "refreshlab"};
        wrapped.insert(wrapped.end(), command.begin(), command.end());
        ssh = spawn(wrapped, {in.reading.get(), out.writing.get(), err.writing.get()});
        from_server = std::move(out.reading);
        from_ssh = std::move(err.reading);
        ::fcntl(from_server.get(), F_SETFL, O_NONBLOCK);
        ::fcntl(from_ssh.get(), F_SETFL, O_NONBLOCK);
        said.clear();
        lines.clear();
    }

    /// What has come of both pipes. \return false: both have ended
    bool read_some() {
        bool open = false;
        const auto read_all = [&](Fd& fd, std::string& text) {
            std::array<char, 4096> block{};
            while (fd.get() >= 0) {
                const ssize_t got = ::read(fd.get(), block.data(), block.size());
                if (got > 0) {
                    text.append(block.data(), static_cast<size_t>(got));
                    continue;
                }
                if (got == 0) fd.close();
                open = open || got < 0;
                break;
            }
            if (text.size() > 2 * kept_of_stderr) text.erase(0, text.size() - kept_of_stderr);
        };
        read_all(from_server, lines);
        read_all(from_ssh, said);
        return open;
    }

    bool has_ended() {
        read_some();
        int status = 0;
        if (ended) return true;
        if (::waitpid(ssh, &status, WNOHANG) != ssh) return false;
        exit_status = status_of(status);
        ended = true;
        return true;
    }

    /// The address that the server says, of that machine.
    std::string server_address() {
        const auto limit = Clock::now() + options.patience;
        while (true) {
            const bool over = has_ended();
            // A login shell may have said something before.
            for (size_t begin = 0, end = 0; (end = lines.find('\n', begin)) != std::string::npos;
                 begin = end + 1) {
                const std::string line = lines.substr(begin, end - begin);
                for (const std::string_view start : {for_window::listening, for_window::already_listening}) {
                    if (!line.starts_with(start)) continue;
                    // One that comes after it in its place is this window's as well.
                    started_server = started_server || start == for_window::listening;
                    return line.substr(start.size());
                }
            }
            if (over) throw over_before();
            if (stop) throw failed("the connection is closed");
            if (Clock::now() > limit)
                throw failed(
                    fmt::format("no server has started there within {} s", options.patience.count()));
            std::array<pollfd, 2> waiting{pollfd{from_server.get(), POLLIN, 0},
                                          pollfd{from_ssh.get(), POLLIN, 0}};
            ::poll(waiting.data(), waiting.size(), look_ms);
            if (from_server.get() < 0 && from_ssh.get() < 0)
                std::this_thread::sleep_for(std::chrono::milliseconds(look_ms)); // until ssh is gone as well
        }
    }

    [[nodiscard]] Error over_before() const {
        constexpr int of_ssh = 255, no_such_program = 127, not_executable = 126;
        const std::string line = last_line(said);
        if (exit_status == of_ssh)
            return failed("ssh: " + (line.empty() ? "it has ended without a word" : line));
        if (exit_status == no_such_program || exit_status == not_executable)
            return failed(fmt::format("there is no program '{}' on that machine", options.program),
                          "name it with --there PATH, or install RefreshLab there");
        return failed(fmt::format("'{} serve' there ended with status {}{}{}", options.program, exit_status,
                                  line.empty() ? "" : ": ", line),
                      line.find("--for-window") != std::string::npos ||
                              line.find("serve") != std::string::npos
                          ? "install the same version of RefreshLab on both machines"
                          : "");
    }

    /// A Unix socket here that leads to the server. The control connection adds it, so nobody logs in twice.
    void forward(const std::string& address) {
        const Endpoint server = parse_endpoint(address, "the server's address");
        there = {};
        there.path = fmt::format("{}/engine-{}", folder, ++sockets);
        std::vector<std::string> command{options.ssh, "-o", control(), "-O", "forward", "-L"};
        command.push_back(there.path + ":" +
                          (server.is_unix() ? server.path : fmt::format("{}:{}", server.host, server.port)));
        add_port(command);
        command.insert(command.end(), {"--", host()});
        say(command);
        const ChildResult result = run_child(command, {}, [this] { return !stop; });
        if (result.stopped) throw failed("the connection is closed");
        if (result.status != 0) throw failed("ssh cannot forward a socket: " + last_line(result.said));
        was_open = true;
    }

    /// In good order: the shell says `end` to the server when it sees that `alive` is closed; the server and ssh end then.
    void end() {
        if (ssh <= 0 && shell <= 0) return;
        alive.close();
        const auto wait_for = [](pid_t& child, Clock::time_point limit) {
            int status = 0;
            while (child > 0 && ::waitpid(child, &status, WNOHANG) == 0) {
                if (Clock::now() > limit) return false;
                ::poll(nullptr, 0, look_ms / 5);
            }
            child = -1;
            return true;
        };
        // ssh that is still logging in has nobody to tell.
        if (ssh > 0 && !ended && !was_told()) ::kill(ssh, SIGTERM);
        const auto limit = Clock::now() + end_patience;
        bool gone = ended || ssh <= 0;
        while (!gone && Clock::now() < limit) {
            gone = has_ended();
            if (!gone) ::poll(nullptr, 0, look_ms / 5);
        }
        if (!gone) {
            ::kill(ssh, SIGTERM);
            static_cast<void>(wait_for(ssh, Clock::now() + std::chrono::seconds(1)));
            if (ssh > 0) ::kill(ssh, SIGKILL);
        }
        if (!ended) static_cast<void>(wait_for(ssh, Clock::now() + std::chrono::seconds(1)));
        ssh = -1;
        ended = false;
        if (!wait_for(shell, Clock::now() + std::chrono::seconds(2))) {
            ::kill(shell, SIGKILL);
            static_cast<void>(wait_for(shell, Clock::now() + std::chrono::seconds(1)));
        }
        from_server.close();
        from_ssh.close();
        // The shell takes the folder along; a new way makes another.
        std::error_code ignored;
        fs::remove_all(folder, ignored);
        folder.clear();
    }
    /// The server there has spoken, so `end` reaches it.
    [[nodiscard]] bool was_told() const { return lines.find(for_window::listening) != std::string::npos; }

    const Options options;
    std::atomic<bool> stop = false; ///< set by give_up(), seen by open()
    std::string folder;             ///< of the sockets; empty: none yet
    Fd alive;                       ///< open as long as this process lives
    Fd from_server, from_ssh;       ///< stdout and stderr of ssh
    std::string lines, said;        ///< what has come of them
    pid_t ssh = -1, shell = -1;
    bool ended = false, was_open = false;
    bool started_server = false; ///< this window has, so it ends it
    int exit_status = 0, sockets = 0;
    Endpoint there;
};

SshRoad::SshRoad(Options options)
    : m_impl(std::make_unique<Impl>(std::move(options))) {}

SshRoad::~SshRoad() = default;

std::string SshRoad::name() const {
    return to_string(m_impl->options.to);
}

Endpoint SshRoad::open() {
    if (m_impl->stop) throw m_impl->failed("the connection is closed");
    return m_impl->open();
}

void SshRoad::give_up() {
    m_impl->stop = true;
}

} // namespace refreshlab::remote
