// `gui --connect ssh://...`: the way through a real sshd of this user on the loopback (sshd.sh).
#include "engine/base/error.h"
#include "engine/base/shell_word.h"
#include "engine/record/trace/trace_store.h"
#include "engine/remote/own_server.h"
#include "engine/remote/remote_engine.h"
#include "engine/remote/ssh_road.h"
#include "tests/app/serve/processes.h"
#include "tests/engine/remote/fake_engine.h"

#include <arpa/inet.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace ssh_test {

namespace fs = std::filesystem;
using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr auto program = RL_BUILD_DIR "/refreshlab";

/// A port of the loopback that nobody has now.
uint16_t free_port() {
    const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(bind(probe, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    close(probe);
    return ntohs(address.sin_port);
}

bool becomes(const std::function<bool()>& condition) {
    using Clock = std::chrono::steady_clock;
    for (const auto limit = Clock::now() + std::chrono::seconds(20); Clock::now() < limit;) {
        if (condition()) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
}

/// An sshd, its client, and the roads through it.
class Host {
public:
    Host() {
        for (int tries = 0; tries < 5 && !m_sshd; ++tries) {
            m_port = free_port();
            m_sshd = std::make_unique<Process>(
                std::vector<std::string>{RL_SOURCE_DIR "/tests/app/serve/sshd.sh", RL_SSHD,
                                         m_folder.path().string(), std::to_string(m_port)});
            remote::Endpoint at;
            at.host = "127.0.0.1";
            at.port = m_port;
            std::optional<int> ended;
            REQUIRE(becomes([&] { return remote::answers(at) || (ended = m_sshd->ended()); }));
            constexpr int not_here = 77;
            if (ended == not_here)
                SKIP("as root sshd needs a mount of its own, and this container may not mount");
            if (ended) m_sshd.reset(); // somebody else has taken the port
        }
        REQUIRE(m_sshd);
    }

    [[nodiscard]] remote::SshRoad::Options options() {
        remote::SshRoad::Options road;
        road.to.host = "127.0.0.1";
        road.to.port = m_port;
        road.ssh = ssh();
        road.program = program;
        road.serve = {"--unix", socket().path, "--record", (m_folder / "traces").string()};
        road.say = [this](const std::string& command) {
            const std::lock_guard lock(m_mutex);
            m_said.push_back(command);
        };
        return road;
    }
    [[nodiscard]] remote::RemoteEngine::Options link() {
        remote::RemoteEngine::Options link;
        link.road = std::make_shared<remote::SshRoad>(options());
        link.name = "a test";
        link.patience = std::chrono::seconds(30);
        return link;
    }
    /// Where the server listens.
    [[nodiscard]] remote::Endpoint socket() const {
        remote::Endpoint at;
        at.path = (m_folder / "engine").string();
        return at;
    }
    [[nodiscard]] std::string ssh() const { return (m_folder / "ssh").string(); }
    [[nodiscard]] uint16_t port() const { return m_port; }
    [[nodiscard]] const Folder& folder() const { return m_folder; }
    [[nodiscard]] std::vector<std::string> said() {
        const std::lock_guard lock(m_mutex);
        return m_said;
    }
    /// The folder of the sockets here, which the first command names.
    [[nodiscard]] std::string sockets() {
        const std::string command = said().at(0), before = "ControlPath=";
        const size_t begin = command.find(before) + before.size();
        return command.substr(begin, command.find("/ssh", begin) - begin);
    }
    /// As a network that fails: ssh ends, and nobody says anything.
    void break_connection() {
        Process cut({ssh(), "-p", std::to_string(m_port), "-o", "ControlPath=" + sockets_now() + "/ssh", "-O",
                     "exit", "127.0.0.1"});
        CHECK(cut.end(0) == 0);
    }

private:
    [[nodiscard]] std::string sockets_now() {
        const std::string command = said().back(), before = "ControlPath=";
        const size_t begin = command.find(before) + before.size();
        return command.substr(begin, command.find("/ssh", begin) - begin);
    }
    Folder m_folder;
    uint16_t m_port = 0;
    std::unique_ptr<Process> m_sshd;
    std::mutex m_mutex;
    std::vector<std::string> m_said;
};

void start_paused(remote::RemoteEngine& link, LinkWatcher& watch, int32_t steps) {
    REQUIRE(watch.until([](const EngineStatus& s) { return !s.applied.teacher_dir.empty(); }));
    RunConfig config = link.status()->applied;
    config.prompt = "Write a chronicle of 2 companies.";
    config.max_tokens = 60;
    config.threads = 1;
    const uint64_t ticket = link.send(command::StartRun{config, true});
    REQUIRE(watch.until(
        [&](const EngineStatus& s) { return s.answered >= ticket && s.state == EngineState::paused; }));
    link.send(command::Step{steps});
    REQUIRE(watch.until([&](const EngineStatus& s) {
        return s.state == EngineState::paused && link.recording() && link.recording()->steps() == steps;
    }));
}

} // namespace

TEST_CASE("through ssh a server is started, steered and ended; after a loss it is found again", "[ssh]") {
    Host host;
    std::shared_ptr<const Recording> here;
    {
        remote::RemoteEngine link(host.link());
        LinkWatcher watch(link);
        const auto commands = host.said();
        REQUIRE(commands.size() == 2);
        CHECK_THAT(commands[0], ContainsSubstring("serve --for-window"));
        CHECK_THAT(commands[1], ContainsSubstring("-O forward -L"));
        CHECK(link.status()->link->server == "ssh://127.0.0.1:" + std::to_string(host.port()));
        CHECK_THAT(link.status()->link->record, ContainsSubstring("serve-"));
        CHECK((fs::status(host.sockets()).permissions() & fs::perms::all) == fs::perms::owner_all);
        start_paused(link, watch, 8);

        host.break_connection();
        REQUIRE(watch.until([](const EngineStatus& s) { return !s.link->connected; }));
        REQUIRE(watch.until([](const EngineStatus& s) { return s.link->connected; }));
        CHECK(link.status()->link->problem.empty()); // it is the same server
        link.send(command::Step{4});
        REQUIRE(watch.until([&](const EngineStatus& s) {
            return s.state == EngineState::paused && link.recording()->steps() == 12 &&
                   s.link->rows_to_come == 0;
        }));
        here = link.recording();
        CHECK(remote::answers(host.socket()));
    }
    // The window has started it, so it ends it, though a later connection found it there.
    CHECK(becomes([&] { return !remote::answers(host.socket()); }));
    CHECK(becomes([&] { return !fs::exists(host.sockets()); }));
    const auto there = load_trace(only_file(host.folder() / "traces"));
    REQUIRE(there.size() == 1);
    CHECK(!first_difference(*there[0], *here));
}

TEST_CASE("a server that a window has started through ssh ends with it, and its trace is whole", "[ssh]") {
    Host host;
    std::shared_ptr<const Recording> here;
    {
        remote::RemoteEngine link(host.link());
        LinkWatcher watch(link);
        start_paused(link, watch, 8);
        here = link.recording();
    }
    CHECK(becomes([&] { return !remote::answers(host.socket()); }));
    CHECK(!fs::exists(host.sockets()));
    const auto there = load_trace(only_file(host.folder() / "traces"));
    REQUIRE(there.size() == 1);
    CHECK(there[0]->token_ids() == here->token_ids());
    CHECK(there[0]->steps() == 8);
}

TEST_CASE("a window that is killed leaves nothing behind on either machine", "[ssh]") {
    Host host;
    int ready[2];
    REQUIRE(pipe2(ready, O_CLOEXEC) == 0);
    auto options = host.link(); // nothing runs yet
    const pid_t window = fork();
    if (window == 0) {
        remote::RemoteEngine link(std::move(options));
        const std::string sockets = host.sockets();
        static_cast<void>(!write(ready[1], sockets.data(), sockets.size()));
        pause();
        _exit(0);
    }
    close(ready[1]);
    char text[300] = {};
    REQUIRE(read(ready[0], text, sizeof text - 1) > 0);
    close(ready[0]);
    REQUIRE(remote::answers(host.socket()));
    REQUIRE(fs::exists(text));
    kill(window, SIGKILL);
    waitpid(window, nullptr, 0);
    CHECK(becomes([&] { return !remote::answers(host.socket()); }));
    CHECK(becomes([&] { return !fs::exists(text); }));
}

TEST_CASE("a server that was there is used, and stays", "[ssh]") {
    Host host;
    Server server({"--unix", host.socket().path});
    {
        remote::RemoteEngine link(host.link());
        LinkWatcher watch(link);
        start_paused(link, watch, 3);
    }
    CHECK(remote::answers(host.socket()));
    CHECK(server.end(SIGTERM) == 128 + SIGTERM);
}

TEST_CASE("what keeps ssh from a server is one line", "[ssh]") {
    Host host;
    const auto problem = [](remote::SshRoad::Options options) {
        remote::SshRoad road(std::move(options));
        try {
            static_cast<void>(road.open());
        } catch (const Error& e) {
            return std::string(e.what());
        }
        return std::string("none");
    };
    auto options = host.options();
    options.ssh = "no-such-ssh";
    CHECK_THAT(problem(options), ContainsSubstring("there is no program 'no-such-ssh' here"));
    options = host.options();
    options.to.port = free_port();
    CHECK_THAT(problem(options), ContainsSubstring("Connection refused"));
    options = host.options();
    options.program = "no-such-refreshlab";
    CHECK_THAT(problem(options),
               ContainsSubstring("there is no program 'no-such-refreshlab' on that machine"));
    options = host.options();
    options.to.user = "no-such-user";
    CHECK_THAT(problem(options), ContainsSubstring("Permission denied"));
    // A release before this one.
    const std::string old = (host.folder() / "old").string();
    std::ofstream(old)
        << "#!/bin/sh\necho 'The following argument was not expected: --for-window' >&2\nexit 2\n";
    fs::permissions(old, fs::perms::owner_all);
    options = host.options();
    options.program = old;
    CHECK_THAT(problem(options), ContainsSubstring("--for-window") && ContainsSubstring("the same version"));
    // Somebody who says nothing, and a login shell that says much.
    const std::string silent = (host.folder() / "it's silent").string(); // and its name needs quotes
    std::ofstream(silent) << "#!/bin/sh\necho welcome\nexec sleep 60\n";
    fs::permissions(silent, fs::perms::owner_all);
    options = host.options();
    options.program = silent;
    options.patience = std::chrono::seconds(1);
    CHECK_THAT(problem(options), ContainsSubstring("no server has started there within 1 s"));
    for (const std::string& line : host.said())
        CHECK(std::ranges::count(line, '\n') == 0);
}

TEST_CASE("an address for ssh is read and written", "[ssh]") {
    const auto read = [](const std::string& text) { return remote::parse_ssh_address(text, "--connect"); };
    CHECK(read("ssh://ada@server") == remote::SshAddress{"ada", "server", 0});
    CHECK(read("ssh://server:2222/") == remote::SshAddress{"", "server", 2222});
    CHECK(read("ssh://ada@[::1]:22") == remote::SshAddress{"ada", "::1", 22});
    for (const char* text : {"ssh://ada@server", "ssh://server:2222", "ssh://ada@[::1]:22"})
        CHECK(to_string(read(text)) == text);
    for (const char* text : {"ssh://", "ssh://@server", "ssh://-oProxyCommand=x", "ssh://a@-x",
                             "ssh://server:0", "ssh://server:70000", "ssh://server:", "ssh://a b",
                             "ssh://a;b", "ssh://::1", "ssh://$(x)@server", "ssh://server/path"}) {
        CAPTURE(text);
        CHECK_THROWS_AS(read(text), Error);
    }
    CHECK(shell_word("a/b.c") == "a/b.c");
    CHECK(shell_word("it's") == "'it'\\''s'");
    CHECK(shell_word("") == "''");
}

} // namespace ssh_test
